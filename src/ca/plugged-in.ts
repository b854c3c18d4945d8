// SPDX-License-Identifier: Apache-2.0
// An authority that people plug in: key and certificates in a folder, taken in again when the files change. Never exchanges the roots under
// a running mesh unless the old or the new ones contain the others and that is allowed; keeps the last good files.

import { createHash } from 'node:crypto'
import { watch } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import type { Clock, Timer } from '../base/clock.js'
import { createDebounce } from '../base/debounce.js'
import { InvalidInput, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { Listeners } from './authority.js'
import type { Authority } from './authority.js'
import { checkCaFolder, readCaFolder } from './ca-folder.js'
import type { CaFolder } from './ca-folder.js'
import type { SigningBundle } from './signing-bundle.js'

export interface PluggedInOptions {
  readonly folder: string
  readonly clock: Clock
  readonly log: Logger
  /** New roots may be taken over when they contain the old ones or the other way round. Default false: a change of roots needs a restart. */
  readonly isMultiRoot?: boolean
  /** Looks at the folder at least so often, in case the system says nothing of a change. Default a minute. */
  readonly checkIntervalMs?: number
}

export class PluggedInAuthority implements Authority {
  readonly #options: PluggedInOptions
  readonly #listeners: Listeners
  #known: CaFolder | undefined
  #fingerprint = ''
  #complaint = ''
  #signal: AbortSignal = AbortSignal.abort()
  #watcher: FSWatcher | undefined
  #timer: Timer | undefined
  #checking: Promise<void> | undefined

  constructor(options: PluggedInOptions) {
    this.#options = options
    this.#listeners = new Listeners(options.log)
  }

  get bundle(): SigningBundle | undefined {
    return this.#known?.bundle
  }

  get crl(): string {
    return this.#known?.crl ?? ''
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  async start(signal: AbortSignal): Promise<void> {
    const { folder } = this.#options
    signal.throwIfAborted()
    this.#signal = signal
    const debounce = createDebounce({
      clock: this.#options.clock,
      quietMs: 100,
      maxMs: 1_000,
      // A look that is under way may have read the file before it changed.
      run: () => void (this.#checking ?? Promise.resolve()).then(() => this.check()),
    })
    // Before the first look, so that nothing falls between.
    this.#watch(() => debounce.touch())
    signal.addEventListener(
      'abort',
      () => {
        debounce.stop()
        this.#timer?.cancel()
        this.#watcher?.close()
      },
      { once: true },
    )
    const found = await this.#read()
    if (found === undefined) throw new InvalidInput(`${folder} holds no signing certificates`)
    this.#take(found)
    this.#checkLater()
  }

  check(): Promise<void> {
    this.#checking ??= this.#look().finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  #watch(wake: () => void): void {
    const { folder, log } = this.#options
    try {
      this.#watcher = watch(folder, { persistent: false }, wake)
      this.#watcher.on('error', (error) => log.warn({ folder, error: formatError(error) }, 'folder is not watched'))
    } catch (error) {
      log.warn({ folder, error: formatError(error) }, 'folder is not watched')
    }
  }

  #checkLater(): void {
    const { clock, checkIntervalMs = 60_000 } = this.#options
    if (this.#signal.aborted) return
    this.#timer = clock.after(checkIntervalMs, () => void this.check().then(() => this.#checkLater()))
  }

  /** What is there now, checked; undefined when it is the same as before or nothing. */
  async #read(): Promise<CaFolder | undefined> {
    const { folder, clock } = this.#options
    const found = await readCaFolder(folder)
    if (found === undefined) return undefined
    const { certificate, key, chain, roots } = found.texts
    const fingerprint = createHash('sha256')
      .update([certificate, key, chain, roots, found.crl].map(({ text }) => text).join('\0'))
      .digest('hex')
    if (fingerprint === this.#fingerprint) return undefined
    const checked = await checkCaFolder(found, clock.now())
    this.#refuseForeignRoots(checked.bundle)
    this.#fingerprint = fingerprint
    return checked
  }

  async #look(): Promise<void> {
    const { folder, log } = this.#options
    if (this.#signal.aborted) return
    try {
      const found = await this.#read()
      if (found !== undefined) this.#take(found)
      this.#complaint = ''
    } catch (error) {
      // While files are being exchanged they may not fit each other for a moment: said once, and looked at again.
      const complaint = formatError(error)
      if (complaint !== this.#complaint)
        log.error({ folder, error: complaint }, 'changed files cannot be used; the last good ones stay')
      this.#complaint = complaint
    }
  }

  #refuseForeignRoots(next: SigningBundle): void {
    const { folder, isMultiRoot = false } = this.#options
    const now = this.bundle
    if (now === undefined) return
    const [old, fresh] = [new Set(now.roots), new Set(next.roots)]
    const isSubset = (small: ReadonlySet<string>, large: ReadonlySet<string>): boolean =>
      [...small].every((root) => large.has(root))
    const [grows, shrinks] = [isSubset(old, fresh), isSubset(fresh, old)]
    if (grows && shrinks) return
    if (isMultiRoot && (grows || shrinks)) return
    throw new InvalidInput(
      isMultiRoot
        ? `the roots in ${folder} have nothing to do with the old ones; add the new root beside the old, wait until all proxies know it, then remove the old one`
        : `the roots in ${folder} changed; set ISTIO_MULTIROOT_MESH to have roots added and removed while proxies are connected, or restart`,
    )
  }

  #take(found: CaFolder): void {
    const { folder, log } = this.#options
    this.#known = found
    log.info({ folder, until: new Date(found.bundle.notAfterMs).toISOString() }, 'signing certificates taken in')
    this.#listeners.tell()
  }
}
