// SPDX-License-Identifier: Apache-2.0
// Fills the inputs from a folder of manifests and keeps them as the folder is. For main, in the place of an API server. Never writes into the
// folder. A wake-up is only a reason to look; whoever does not wake is found by a look from time to time.

import { Fatal, formatError } from '../base/errors.js'
import { sleep, type Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Feed } from './feed.js'
import { Definitions } from './file-definitions.js'
import { ManifestFolder, formatUnreadable, type Look } from './file-folder.js'
import { formatMeshConfigName } from './mesh-config.js'
import { kinds, type Inputs } from './inputs.js'
import { join } from 'node:path'

export interface FileFeedOptions {
  readonly folder: string
  readonly inputs: Inputs
  /** Id of the cluster that the objects are said to live in. */
  readonly cluster: string
  /** Namespace of the mesh ConfigMap. */
  readonly systemNamespace: string
  /** Picks the mesh ConfigMap by name; empty or `default` is the plain one. */
  readonly revision?: string
  readonly clock: Clock
  readonly log: Logger
}

/** Changes that are no further apart than this are one change set. */
const quietMs = 50
/** A folder that never rests is taken in this often all the same. */
const restlessMs = 1_000
/** Between two looks that nothing asked for. Longer for a folder that takes long to look through. */
const sweepMs = 2_000
const sweepsPerLook = 50
/** After this much text the event loop gets a turn. */
const breathBytes = 16 * 1024

/** Makes the feed; run() starts it. A folder that is missing at the start is Fatal; one that vanishes later is waited for. */
export function createFileFeed(options: FileFeedOptions): Feed {
  return new FileFeed(options)
}

class FileFeed implements Feed {
  readonly synced: Promise<void>
  readonly #options: FileFeedOptions
  readonly #folder: ManifestFolder
  readonly #definitions: Definitions
  #resolveSynced: () => void = () => undefined
  #isSynced = false
  #wakes = 0
  #onWake: () => void = () => undefined
  #lookMs = 0
  #trouble = ''

  constructor(options: FileFeedOptions) {
    this.#options = options
    const { folder, inputs, cluster, systemNamespace, revision = '', log } = options
    this.synced = new Promise((resolve) => (this.#resolveSynced = resolve))
    this.#folder = new ManifestFolder(folder, () => {
      this.#wakes++
      this.#onWake()
    })
    const meshConfig = { namespace: systemNamespace, name: formatMeshConfigName(revision) }
    const formatFile = (path: string): string => join(folder, path)
    this.#definitions = new Definitions({ inputs, place: { cluster, meshConfig }, log, formatFile })
  }

  pending(): readonly string[] {
    return this.#isSynced ? [] : kinds
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) {
        const seen = await this.#lookUntilQuiet(signal)
        if (this.#wakes === seen) await this.#pause(signal)
        if (this.#wakes !== seen) await this.#quiet(signal)
      }
    } catch (error) {
      // Aborting wakes whatever sleeps with an error; that is the end that was asked for.
      if (!signal.aborted || error instanceof Fatal) throw error
    } finally {
      this.#folder.close()
    }
  }

  /**
   * Looks, and looks again while something changes, so that half a change set is not taken for a whole one; then applies it.
   * Gives the number of wake-ups that the last look has seen.
   */
  async #lookUntilQuiet(signal: AbortSignal): Promise<number> {
    const { clock } = this.#options
    const start = clock.monotonic()
    for (;;) {
      const seen = this.#wakes
      const lookStart = clock.monotonic()
      if (!(await this.#look()) || signal.aborted) return seen
      this.#lookMs = clock.monotonic() - lookStart
      if (this.#wakes === seen || clock.monotonic() - start >= restlessMs) {
        this.#apply()
        return seen
      }
      await this.#quiet(signal)
    }
  }

  /** False when there is nothing to look at: then all that is known stays. */
  async #look(): Promise<boolean> {
    let look: Look
    try {
      look = await this.#folder.look()
    } catch (error) {
      this.#reportTrouble(error)
      return false
    }
    this.#reportSight()
    for (const file of [...this.#definitions.files()]) {
      if (!look.present.has(file) && !isBelow(file, look.unreadable)) this.#definitions.drop(file)
    }
    for (const [path, error] of look.unreadable) this.#definitions.refuse(path, formatUnreadable(error), undefined)
    let read = 0
    for (const [path, text] of look.texts) {
      await this.#take(path, text)
      read += text.length
      if (read > breathBytes) {
        read = 0
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    return true
  }

  async #take(path: string, text: string): Promise<void> {
    // Brings the package that reads YAML, which a server of an API server's objects never needs.
    const { UnreadableManifest, parseManifest } = await import('./file-manifest.js')
    try {
      this.#definitions.take(path, await parseManifest(text))
    } catch (error) {
      // Whatever a file makes of a reader, such as a nesting that no stack is deep enough for, is that file's failure alone.
      this.#definitions.refuse(path, formatError(error), error instanceof UnreadableManifest ? error.line : undefined)
    }
  }

  #apply(): void {
    const { log, folder } = this.#options
    const changed = this.#definitions.apply()
    if (changed > 0) log.info({ folder, objects: changed }, 'manifests taken in')
    if (this.#isSynced) return
    this.#isSynced = true
    this.#resolveSynced()
  }

  /** The folder itself cannot be looked at: at the start that ends the program, later it is told once and waited out. */
  #reportTrouble(error: unknown): void {
    const { log, folder } = this.#options
    const reason = formatError(error)
    if (!this.#isSynced) throw new Fatal(`cannot read the folder of manifests ${folder}: ${reason}`, error)
    if (this.#trouble === reason) return
    this.#trouble = reason
    log.warn({ folder, reason }, 'the folder of manifests cannot be read; what is known stays')
  }

  #reportSight(): void {
    const { log, folder } = this.#options
    const blind = this.#folder.blind
    const reason = blind === undefined ? '' : formatError(blind)
    if (reason === this.#trouble) return
    this.#trouble = reason
    if (reason === '') log.info({ folder }, 'the folder of manifests is read and watched again')
    else log.warn({ folder, reason }, 'not everything in the folder of manifests can be watched; changes are seen late')
  }

  /** Until something wakes, the next sweep is due, or all ends. */
  async #pause(signal: AbortSignal): Promise<void> {
    // A signal that has aborted already tells nobody any more.
    if (signal.aborted) return
    let onEnd = (): void => undefined
    const end = new Promise<void>((resolve) => (onEnd = resolve))
    const timer = this.#options.clock.after(Math.max(sweepMs, this.#lookMs * sweepsPerLook), onEnd)
    this.#onWake = onEnd
    signal.addEventListener('abort', onEnd, { once: true })
    await end
    signal.removeEventListener('abort', onEnd)
    timer.cancel()
    this.#onWake = () => undefined
  }

  /** Until nothing woke for a while. */
  async #quiet(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const start = clock.monotonic()
    for (let seen = -1; seen !== this.#wakes && clock.monotonic() - start < restlessMs;) {
      seen = this.#wakes
      await sleep(clock, quietMs, signal)
    }
  }
}

/** True when the file, or a folder above it, is among `paths`. */
function isBelow(file: string, paths: ReadonlyMap<string, unknown>): boolean {
  if (paths.size === 0) return false
  for (let end = file.length; end > 0; end = file.lastIndexOf('/', end - 1)) {
    if (paths.has(file.slice(0, end))) return true
  }
  return false
}
