// SPDX-License-Identifier: Apache-2.0
// The certificate of our own TLS port, signed by the authority that we serve. Made anew when the authority changes and before it expires; the key
// never leaves memory. For composition roots, which hand it to the listener.

import { generateKeyPairSync } from 'node:crypto'
import type { Clock, Timer } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { Listeners } from './authority.js'
import type { Authority } from './authority.js'
import { Signer } from './signer.js'
import { formatRoots } from './signing-bundle.js'

const dayMs = 24 * 3_600_000
const retryMs = 10_000

/** What the TLS listener takes. All in PEM. */
export interface ServerTls {
  /** The leaf, then the certificates between it and a root. */
  readonly cert: string
  readonly key: string
  /** Roots that client certificates must lead to. */
  readonly clientCa: string
}

export interface ServerNames {
  readonly namespace: string
  /** `default` or empty adds no name. */
  readonly revision: string
  /** Host, perhaps with a port, by which proxies find us; empty without one. */
  readonly discoveryAddress?: string
  /** More names or IP literals. */
  readonly customHosts?: readonly string[]
  /** Without a cluster, clients are on this machine. */
  readonly isLocal?: boolean
}

/** Names for the certificate, sorted, such that it can stand in for istiod's. */
export function selectServerNames(names: ServerNames): string[] {
  const { namespace, revision, discoveryAddress = '', customHosts = [], isLocal = false } = names
  const services = ['istiod', 'istiod-remote', 'istio-pilot']
  if (revision !== '' && revision !== 'default') services.push(`istiod-${revision}`)
  const host = discoveryAddress.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  const local = isLocal ? ['localhost', '127.0.0.1', '::1'] : []
  const all = [...services.map((service) => `${service}.${namespace}.svc`), host, ...customHosts, ...local]
  return [...new Set(all.map((name) => name.trim()).filter((name) => name !== ''))].sort()
}

export interface ServerCertificateOptions {
  readonly authority: Authority
  readonly clock: Clock
  readonly log: Logger
  readonly names: readonly string[]
  /** Default 10 years; never longer than the authority's own. */
  readonly ttlMs?: number
}

export class ServerCertificate {
  readonly #options: ServerCertificateOptions
  readonly #signer: Signer
  readonly #listeners: Listeners
  #current: ServerTls | undefined
  #timer: Timer | undefined
  #making: Promise<void> = Promise.resolve()
  #signal: AbortSignal = AbortSignal.abort()

  constructor(options: ServerCertificateOptions) {
    this.#options = options
    this.#signer = new Signer(options)
    this.#listeners = new Listeners(options.log)
  }

  /** Undefined until start() has resolved. */
  get current(): ServerTls | undefined {
    return this.#current
  }

  /** Called whenever there is another certificate, or other roots. Returns what ends that. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /** To be called when the authority has started. Keeps the certificate fresh until the signal aborts. Rejects when none can be made now. */
  async start(signal: AbortSignal): Promise<ServerTls> {
    const { authority } = this.#options
    signal.throwIfAborted()
    this.#signal = signal
    const stop = authority.onChange(() => this.#remake())
    signal.addEventListener(
      'abort',
      () => {
        stop()
        this.#timer?.cancel()
      },
      { once: true },
    )
    return this.#make()
  }

  /** One after another, so that the last one made belongs to the last change. */
  #remake(): void {
    this.#making = this.#making.then(() => this.#makeOrRetry())
  }

  async #makeOrRetry(): Promise<void> {
    if (this.#signal.aborted) return
    try {
      await this.#make()
    } catch (error) {
      this.#options.log.error({ error: formatError(error) }, 'server certificate could not be made; the old one stays')
      this.#later(retryMs, () => this.#remake())
    }
  }

  async #make(): Promise<ServerTls> {
    const { authority, clock, log, names, ttlMs = 3650 * dayMs } = this.#options
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const { bundle } = authority
    const leaf = await this.#signer.signOwn(publicKey, names, ttlMs)
    // The signer refuses without a bundle, so there is one.
    const chain = bundle?.chain ?? []
    const clientCa = bundle === undefined ? '' : formatRoots(bundle)
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
    const made: ServerTls = { cert: leaf + chain.join(''), key, clientCa }
    this.#current = made
    const lifeMs = Math.min(ttlMs, (bundle?.notAfterMs ?? 0) - clock.now())
    this.#renewAt(clock.now() + (lifeMs * 2) / 3)
    log.info({ names, until: new Date(clock.now() + lifeMs).toISOString() }, 'server certificate made')
    this.#listeners.tell()
    return made
  }

  /** In steps of a day: timers cannot wait for years. */
  #renewAt(atMs: number): void {
    const leftMs = atMs - this.#options.clock.now()
    this.#later(Math.min(Math.max(leftMs, retryMs), dayMs), () => {
      if (this.#options.clock.now() >= atMs) this.#remake()
      else this.#renewAt(atMs)
    })
  }

  #later(delayMs: number, task: () => void): void {
    this.#timer?.cancel()
    if (!this.#signal.aborted) this.#timer = this.#options.clock.after(delayMs, task)
  }
}
