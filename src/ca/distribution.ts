// SPDX-License-Identifier: Apache-2.0
// Puts roots and revocation lists into a ConfigMap of every namespace, where proxies are given them as files, and keeps them there.
// For the leader alone; reaches the API server through what it is given. Touches one key of its own maps, never another key or a label that is there.

import { createBackoff } from '../base/backoff.js'
import type { Backoff } from '../base/backoff.js'
import type { Clock, Timer } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { Authority } from './authority.js'
import { formatRoots } from './signing-bundle.js'

export interface StoredMap {
  readonly version: string
  readonly values: Readonly<Record<string, string>>
}

/** One ConfigMap to write. */
export interface MapWrite {
  readonly namespace: string
  readonly name: string
  readonly values: Readonly<Record<string, string>>
}

/**
 * `again`: it changed meanwhile, or was made or deleted by somebody else. `skip`: not for us: forbidden, or the namespace is gone or going.
 */
export type MapWriteOutcome = 'written' | 'again' | 'skip'

/** ConfigMaps of the API server. All functions reject with Retryable when it cannot be reached. */
export interface ConfigMapAccess {
  /** Undefined: not found. */
  read(namespace: string, name: string, signal: AbortSignal): Promise<StoredMap | undefined>
  create(map: MapWrite, labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<MapWriteOutcome>
  /** Sets these values and keeps others. */
  update(map: MapWrite, version: string, signal: AbortSignal): Promise<MapWriteOutcome>
}

export interface DistributionOptions {
  readonly authority: Authority
  readonly maps: ConfigMapAccess
  readonly clock: Clock
  readonly log: Logger
  /** Default `istio-ca-root-cert`. */
  readonly rootMapName?: string
  /** Default `istio-ca-crl`. */
  readonly crlMapName?: string
  /** False: revocation lists are not given out. Default true. */
  readonly hasCrl?: boolean
  /** Between 0 and 1. Default Math.random. */
  readonly random?: () => number
}

/** Nothing runs there that needs roots. */
const skippedNamespaces = new Set(['kube-public', 'kube-node-lease', 'local-path-storage'])
const labels = { 'istio.io/config': 'true' }
const mostAtOnce = 8

interface Item {
  readonly namespace: string
  readonly name: string
  readonly backoff: Backoff
  timer: Timer | undefined
  /** Set while it is being reconciled: another look is due afterwards. */
  isDue: boolean
  isRunning: boolean
}

export class Distribution {
  readonly #options: DistributionOptions
  readonly #namespaces = new Set<string>()
  readonly #items = new Map<string, Item>()
  readonly #queue: Item[] = []
  #running = 0
  #signal: AbortSignal = AbortSignal.abort()

  constructor(options: DistributionOptions) {
    this.#options = options
  }

  /** From now on, until the signal aborts (leadership is lost, or the end). Namespaces that were told before count. */
  start(signal: AbortSignal): void {
    if (signal.aborted) return
    this.#signal = signal
    const stop = this.#options.authority.onChange(() => this.#lookAtAll())
    signal.addEventListener(
      'abort',
      () => {
        stop()
        for (const item of this.#items.values()) item.timer?.cancel()
        this.#items.clear()
        this.#queue.length = 0
      },
      { once: true },
    )
    this.#lookAtAll()
  }

  /** A namespace is there, or there again, and not on its way out. Those that the mesh does not look at are not to be told. */
  addNamespace(namespace: string): void {
    if (skippedNamespaces.has(namespace)) return
    this.#namespaces.add(namespace)
    for (const name of this.#names) this.#look(namespace, name)
  }

  /** It is gone, going, or no longer looked at. Its maps are left to whoever deletes it. */
  removeNamespace(namespace: string): void {
    this.#namespaces.delete(namespace)
    for (const name of this.#names) {
      const key = toKey(namespace, name)
      this.#items.get(key)?.timer?.cancel()
      this.#items.delete(key)
    }
  }

  /** A ConfigMap was made, changed or deleted. Others than ours are none of our business. */
  mapChanged(namespace: string, name: string): void {
    if (this.#namespaces.has(namespace) && this.#names.includes(name)) this.#look(namespace, name)
  }

  /** The names of the maps, to watch. */
  get names(): readonly string[] {
    return this.#names
  }

  /** Maps that wait to be looked at or are being looked at. */
  get pending(): number {
    return this.#items.size
  }

  get #names(): string[] {
    const { rootMapName = 'istio-ca-root-cert', crlMapName = 'istio-ca-crl', hasCrl = true } = this.#options
    return hasCrl ? [rootMapName, crlMapName] : [rootMapName]
  }

  #lookAtAll(): void {
    for (const namespace of this.#namespaces) for (const name of this.#names) this.#look(namespace, name)
  }

  #look(namespace: string, name: string): void {
    if (this.#signal.aborted) return
    const key = toKey(namespace, name)
    const known = this.#items.get(key)
    if (known !== undefined) {
      known.isDue = true
      // Something changed: no reason to wait out the pause after a failure.
      if (known.timer !== undefined) this.#enqueue(known)
      return
    }
    const { random } = this.#options
    const backoff = createBackoff({ initialMs: 10, maxMs: 60_000, ...(random === undefined ? {} : { random }) })
    const item: Item = { namespace, name, backoff, timer: undefined, isDue: true, isRunning: false }
    this.#items.set(key, item)
    this.#enqueue(item)
  }

  #enqueue(item: Item): void {
    item.timer?.cancel()
    item.timer = undefined
    this.#queue.push(item)
    this.#pump()
  }

  #pump(): void {
    while (this.#running < mostAtOnce) {
      const item = this.#queue.shift()
      if (item === undefined) return
      if (this.#items.get(toKey(item.namespace, item.name)) !== item || item.isRunning) continue
      this.#running++
      item.isRunning = true
      item.isDue = false
      void this.#reconcile(item).then((pauseMs) => {
        this.#running--
        item.isRunning = false
        this.#settle(item, pauseMs)
        this.#pump()
      })
    }
  }

  /** After one try: done, at once again, or after a pause. */
  #settle(item: Item, pauseMs: number | undefined): void {
    const key = toKey(item.namespace, item.name)
    if (this.#items.get(key) !== item) return
    if (pauseMs !== undefined) {
      item.timer = this.#options.clock.after(pauseMs, () => this.#enqueue(item))
    } else if (item.isDue) {
      item.backoff.reset()
      this.#enqueue(item)
    } else {
      this.#items.delete(key)
    }
  }

  /** One try. Undefined: done with; else the pause before the next one. */
  async #reconcile(item: Item): Promise<number | undefined> {
    const { namespace, name } = item
    const { log } = this.#options
    const signal = this.#signal
    try {
      const outcome = await this.#write(namespace, name, signal)
      if (outcome === 'written') log.info({ namespace, configMap: name }, 'roots or revocation lists written')
      if (outcome === 'skip') log.warn({ namespace, configMap: name }, 'may not or cannot be written here; passed over')
      return outcome === 'again' ? item.backoff.next() : undefined
    } catch (error) {
      if (signal.aborted) return undefined
      const pauseMs = item.backoff.next()
      const fields = { namespace, configMap: name, error: formatError(error), retryMs: Math.round(pauseMs) }
      log.warn(fields, 'roots or revocation lists could not be written')
      return pauseMs
    }
  }

  async #write(namespace: string, name: string, signal: AbortSignal): Promise<MapWriteOutcome | 'fine'> {
    const { authority, maps } = this.#options
    const { bundle, crl } = authority
    if (bundle === undefined) return 'fine' // Its first one is a change, of which we are told.
    const isRoots = name === this.#names[0]
    const [key, value] = isRoots ? ['root-cert.pem', formatRoots(bundle)] : ['ca-crl.pem', crl]
    const map: MapWrite = { namespace, name, values: { [key]: value } }
    const stored = await maps.read(namespace, name, signal)
    if (stored === undefined) return maps.create(map, labels, signal)
    return stored.values[key] === value ? 'fine' : maps.update(map, stored.version, signal)
  }
}

const toKey = (namespace: string, name: string): string => `${namespace}/${name}`
