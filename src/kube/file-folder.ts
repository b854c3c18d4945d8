// SPDX-License-Identifier: Apache-2.0
// A folder of manifests on disk: which files are there, what is in those that changed, and a wake-up when something may have changed.
// For the file source. A wake-up says "look", never what happened: looking compares what the disk shows with what was read last.

import { open, readdir, stat } from 'node:fs/promises'
import { watch, type BigIntStats, type FSWatcher } from 'node:fs'
import { join } from 'node:path'
import { Retryable, formatError } from '../base/errors.js'

/** What one look found. Paths are relative to the folder, with `/` between parts. */
export interface Look {
  /** Every manifest there is. */
  readonly present: ReadonlySet<string>
  /** Text of each manifest that may have changed since the last look that was taken in. */
  readonly texts: ReadonlyMap<string, string>
  /** Manifests and folders that could not be read; what was known of them, and of all below them, still counts. */
  readonly unreadable: ReadonlyMap<string, unknown>
}

/** True for a file or folder name that is looked at: it does not start with a dot, and a file ends like a manifest. */
export function isManifestName(name: string, isFolder: boolean): boolean {
  return !name.startsWith('.') && (isFolder || /\.(yaml|yml|json)$/.test(name))
}

interface Watched {
  readonly identity: string
  readonly watcher: FSWatcher | undefined
}

/** A scan in progress. */
interface Walk {
  readonly present: Map<string, BigIntStats>
  readonly folders: Set<string>
  readonly unreadable: Map<string, unknown>
}

const readsAtOnce = 16
const triesPerFile = 4
const triesPerLook = 3

const formatIdentity = (s: BigIntStats): string => `${s.dev}:${s.ino}`
const formatSignature = (s: BigIntStats): string => `${s.dev}:${s.ino}:${s.size}:${s.mtimeNs}:${s.ctimeNs}`
/** The code that the system gave an error; undefined for errors of ours. */
function toCode(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}

const isGone = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(String(toCode(error)))

/** Thrown by look() when the folder itself is not there, or is none; the next look may find it again. */
export class FolderGone extends Retryable {}

export class ManifestFolder {
  readonly #watched = new Map<string, Watched>()
  /** Signature of each manifest as of the last look. */
  readonly #read = new Map<string, string>()
  /** Manifests named by a wake-up since they were read: read again even if they look the same, for a file system's clock is coarse. */
  #touched = new Set<string>()
  #blind: unknown

  /** `wake` is called whenever something below `folder` may have changed. */
  constructor(
    readonly folder: string,
    readonly wake: () => void,
  ) {}

  /** Why some folder cannot be watched; undefined when all are. */
  get blind(): unknown {
    return this.#blind
  }

  /**
   * Watches and walks the whole folder and reads what changed; the caller takes in every text it is given. Throws FolderGone, and what the
   * system says when the folder itself cannot be listed.
   */
  async look(): Promise<Look> {
    this.#blind = undefined
    const texts = new Map<string, string>()
    try {
      for (let tries = 1; ; tries++) {
        const walk: Walk = { present: new Map(), folders: new Set(), unreadable: new Map() }
        const root = await this.#identify()
        await this.#walk(walk, '', [])
        await this.#readDue(texts, walk)
        // Moved away or replaced half-way through, it would seem that files are gone.
        if (root !== (await this.#identify()) && tries < triesPerLook) continue
        return this.#settle(texts, walk)
      }
    } catch (error) {
      this.close()
      throw isGone(error) ? new FolderGone(`folder ${this.folder} is not there`, error) : error
    }
  }

  /** Stops watching, and forgets what was read: the next look reads everything. */
  close(): void {
    for (const [path, watched] of this.#watched) this.#unwatch(path, watched)
    this.#read.clear()
  }

  async #identify(): Promise<string> {
    const s = await stat(this.folder, { bigint: true })
    if (!s.isDirectory()) throw new FolderGone(`${this.folder} is no folder`)
    return formatIdentity(s)
  }

  async #readDue(texts: Map<string, string>, walk: Walk): Promise<void> {
    const touched = this.#touched
    this.#touched = new Set()
    const due: string[] = []
    for (const [path, s] of walk.present) {
      if (touched.has(path) || this.#read.get(path) !== formatSignature(s)) due.push(path)
    }
    const readNext = async (): Promise<void> => {
      for (let next = due.pop(); next !== undefined; next = due.pop()) await this.#readInto(texts, walk, next)
    }
    await Promise.all(Array.from({ length: readsAtOnce }, readNext))
  }

  #settle(texts: Map<string, string>, walk: Walk): Look {
    for (const [path, watched] of this.#watched) {
      if (!walk.folders.has(path)) this.#unwatch(path, watched)
    }
    for (const path of this.#read.keys()) if (!walk.present.has(path)) this.#read.delete(path)
    for (const path of texts.keys()) if (!walk.present.has(path)) texts.delete(path)
    return { present: new Set(walk.present.keys()), texts, unreadable: walk.unreadable }
  }

  /** Throws when the folder cannot be listed. `above` are the folders that lead here: a link back to one of them ends there. */
  async #walk(walk: Walk, path: string, above: readonly string[]): Promise<void> {
    const full = join(this.folder, path)
    const identity = formatIdentity(await stat(full, { bigint: true }))
    if (above.includes(identity)) return
    // Watched before it is listed: what comes later than the list wakes.
    this.#watch(path, identity)
    walk.folders.add(path)
    const entries = await readdir(full, { withFileTypes: true })
    for (const { name } of entries) {
      if (!isManifestName(name, true)) continue
      const below = path === '' ? name : `${path}/${name}`
      try {
        const s = await stat(join(full, name), { bigint: true })
        if (s.isDirectory()) await this.#walk(walk, below, [...above, identity])
        else if (s.isFile() && isManifestName(name, false)) walk.present.set(below, s)
      } catch (error) {
        // Gone between the list and the look, or a link that leads nowhere: then it does not exist.
        if (!isGone(error)) walk.unreadable.set(below, error)
      }
    }
  }

  async #readInto(texts: Map<string, string>, walk: Walk, path: string): Promise<void> {
    try {
      const { text, signature } = await this.#readSteady(path)
      texts.set(path, text)
      if (signature === undefined) this.#read.delete(path)
      else this.#read.set(path, signature)
    } catch (error) {
      this.#read.delete(path)
      if (isGone(error)) walk.present.delete(path)
      else walk.unreadable.set(path, error)
    }
  }

  /** The text of a file that was the same file with the same times before and after; without a signature when it never held still. */
  async #readSteady(path: string): Promise<{ text: string; signature: string | undefined }> {
    const full = join(this.folder, path)
    for (let tries = 1; ; tries++) {
      const handle = await open(full, 'r')
      try {
        const before = formatSignature(await handle.stat({ bigint: true }))
        const bytes = await handle.readFile()
        const after = formatSignature(await stat(full, { bigint: true }))
        if (before !== after && tries < triesPerFile) continue
        if (before !== after) this.wake()
        const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
        return { text, signature: before === after ? after : undefined }
      } finally {
        await handle.close()
      }
    }
  }

  #watch(path: string, identity: string): void {
    const known = this.#watched.get(path)
    if (known?.identity === identity && known.watcher !== undefined) return
    if (known !== undefined) this.#unwatch(path, known)
    this.#watched.set(path, { identity, watcher: this.#openWatcher(path) })
  }

  #openWatcher(path: string): FSWatcher | undefined {
    const onEvent = (_type: string, name: string | null): void => {
      // Without a name anything in this folder may have changed.
      const names =
        name === null ? this.#read.keys() : isManifestName(name, false) ? [path === '' ? name : `${path}/${name}`] : []
      for (const manifest of names) this.#touched.add(manifest)
      this.wake()
    }
    try {
      const watcher = watch(join(this.folder, path), onEvent)
      watcher.on('error', (error) => {
        this.#blind = error
        const watched = this.#watched.get(path)
        if (watched?.watcher === watcher) this.#unwatch(path, watched)
        this.wake()
      })
      return watcher
    } catch (error) {
      // Too many watches on this machine, or a file system without them: whoever looks from time to time sees it all the same.
      if (!isGone(error)) this.#blind = error
      return undefined
    }
  }

  #unwatch(path: string, watched: Watched): void {
    watched.watcher?.close()
    this.#watched.delete(path)
  }
}

/** One line for the log: why a file or folder could not be read. */
export function formatUnreadable(error: unknown): string {
  return toCode(error) === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8 text' : formatError(error)
}
