// SPDX-License-Identifier: Apache-2.0
// An authority of our own: makes a root once, keeps it in a store that all replicas share, and renews it in time under the same key.
// Never replaces a root that proxies trust by one with another key on its own: a root that vanished from the store is written back.

import { generateKeyPair } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { createBackoff } from '../base/backoff.js'
import { sleep } from '../base/clock.js'
import type { Clock, Timer } from '../base/clock.js'
import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { Listeners } from './authority.js'
import type { Authority } from './authority.js'
import { backdateMs, encodeRootName, signRoot } from './certificates.js'
import type { Issuer } from './certificates.js'
import { formatPem } from './pem.js'
import type { RootStore, RootTexts, StoredRoot } from './root-store.js'
import { parseBundle } from './signing-bundle.js'
import type { SigningBundle } from './signing-bundle.js'

const dayMs = 24 * 3_600_000
const generateKey = promisify(generateKeyPair)

export interface SelfSignedOptions {
  readonly store: RootStore
  /** Becomes the organisation of a new root; asked when one is made. */
  readonly trustDomain: () => string
  readonly clock: Clock
  readonly log: Logger
  /** Whether this replica may renew the root and write it back. Asked at each check. */
  readonly isLeader: () => boolean
  /** Default 10 years. */
  readonly lifetimeMs?: number
  /** Bits of a new RSA key, or a curve. Default 2048. */
  readonly keyKind?: number | 'P-256' | 'P-384'
  /** Time between two looks at the store. Default an hour; the first look comes at a random moment of the first interval. */
  readonly checkIntervalMs?: number
  /** The root is renewed when less than this part of its life is left. Default 0.2. */
  readonly renewalPart?: number
  /** Further roots to trust, in PEM. */
  readonly extraRoots?: string
  /** Between 0 and 1. Default Math.random. */
  readonly random?: () => number
}

export class SelfSignedAuthority implements Authority {
  readonly crl = ''
  readonly #options: SelfSignedOptions
  readonly #listeners: Listeners
  #stored: StoredRoot | undefined
  #bundle: SigningBundle | undefined
  #signal: AbortSignal = AbortSignal.abort()
  #checking: Promise<void> | undefined
  #timer: Timer | undefined

  constructor(options: SelfSignedOptions) {
    this.#options = options
    this.#listeners = new Listeners(options.log)
  }

  get bundle(): SigningBundle | undefined {
    return this.#bundle
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  async start(signal: AbortSignal): Promise<void> {
    const { clock, log, store, random } = this.#options
    const backoff = createBackoff({ initialMs: 1_000, maxMs: 30_000, ...(random === undefined ? {} : { random }) })
    this.#signal = signal
    for (;;) {
      try {
        this.#adopt(await this.#obtain(signal))
        break
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof Retryable)) throw error
        const waitMs = backoff.next()
        log.warn({ store: store.name, error: error.message, retryMs: Math.round(waitMs) }, 'no root yet')
        await sleep(clock, waitMs, signal)
      }
    }
    signal.addEventListener('abort', () => this.#timer?.cancel(), { once: true })
    this.#checkLater((random ?? Math.random)() * this.#intervalMs)
    if (this.#isDue()) await this.check()
  }

  check(): Promise<void> {
    this.#checking ??= this.#look().finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  get #intervalMs(): number {
    return this.#options.checkIntervalMs ?? 3_600_000
  }

  #checkLater(delayMs: number): void {
    const { clock } = this.#options
    if (isAborted(this.#signal)) return
    this.#timer = clock.after(Math.min(delayMs, dayMs), () => {
      void this.check().then(() => this.#checkLater(this.#intervalMs))
    })
  }

  /** The root that the store holds, or a new one where there never was any. */
  async #obtain(signal: AbortSignal): Promise<StoredRoot> {
    const { store, log } = this.#options
    const stored = await store.read(signal)
    if (stored !== undefined) return stored
    if (((await store.readPublished?.(signal)) ?? '') !== '') {
      throw new Retryable(
        `${store.name} is not there, but proxies were told to trust a root: a new one would cut them off. ` +
          'Restore it from a backup or wait for a replica that still holds it; to begin anew, delete ConfigMap istio-ca-root-cert beside it first',
      )
    }
    const { privateKey } = await this.#makeKey()
    const trustDomain = this.#options.trustDomain()
    const created = await store.create(
      await this.#makeRoot({ key: privateKey, name: encodeRootName(trustDomain), keyId: undefined }),
      signal,
    )
    if (created === undefined) {
      const theirs = await store.read(signal)
      if (theirs === undefined) throw new Retryable(`${store.name} was made by another replica and is gone again`)
      return theirs
    }
    log.info({ store: store.name, organisation: trustDomain }, 'root made')
    return created
  }

  #makeKey(): Promise<{ readonly privateKey: KeyObject }> {
    const { keyKind = 2048 } = this.#options
    return typeof keyKind === 'number'
      ? generateKey('rsa', { modulusLength: keyKind })
      : generateKey('ec', { namedCurve: keyKind })
  }

  async #makeRoot(issuer: Issuer): Promise<RootTexts> {
    const { clock, lifetimeMs = 3650 * dayMs } = this.#options
    const { key } = issuer
    const notBeforeMs = clock.now() - backdateMs
    const der = await signRoot({ ...issuer, notBeforeMs, notAfterMs: notBeforeMs + lifetimeMs })
    const type = key.asymmetricKeyType === 'rsa' ? 'pkcs1' : 'pkcs8'
    const certificate = formatPem('CERTIFICATE', der)
    return { certificate, privateKey: key.export({ type, format: 'pem' }) as string, roots: certificate }
  }

  async #look(): Promise<void> {
    const { store, log } = this.#options
    const signal = this.#signal
    if (this.#stored === undefined || signal.aborted) return
    try {
      const stored = await store.read(signal)
      if (stored === undefined) await this.#writeBack(this.#stored, signal)
      else if (isDifferent(stored, this.#stored)) this.#adopt(stored)
      else this.#stored = stored
      await this.#renewIfDue(signal)
    } catch (error) {
      if (isAborted(signal)) return
      const fields = { store: store.name, error: formatError(error) }
      if (error instanceof InvalidInput) log.error(fields, 'stored root cannot be used; the one in memory stays')
      else log.warn(fields, 'stored root could not be checked; the one in memory stays')
    }
  }

  async #writeBack(root: StoredRoot, signal: AbortSignal): Promise<void> {
    const { store, log, isLeader } = this.#options
    if (!isLeader()) {
      log.warn({ store: store.name }, 'stored root is gone; the one in memory stays')
      return
    }
    const created = await store.create(root, signal)
    if (created === undefined) return
    this.#stored = created
    log.warn({ store: store.name }, 'stored root was gone; written back from memory')
  }

  async #renewIfDue(signal: AbortSignal): Promise<void> {
    const { store, log, isLeader } = this.#options
    const stored = this.#stored
    const bundle = this.#bundle
    if (stored === undefined || bundle === undefined || !this.#isDue() || !isLeader()) return
    // The same key, name and identifier: whatever the old root signed verifies under the new one, and the other way round.
    const root = await this.#makeRoot(bundle.issuer)
    const others = stored.roots.replace(stored.certificate, '')
    const updated = await store.update({ ...root, roots: root.certificate + others }, stored.version, signal)
    if (updated === undefined) {
      const theirs = await store.read(signal)
      if (theirs !== undefined && isDifferent(theirs, stored)) this.#adopt(theirs)
      return
    }
    this.#adopt(updated)
    log.info({ store: store.name, until: new Date(this.#bundle?.notAfterMs ?? 0).toISOString() }, 'root renewed')
  }

  #isDue(): boolean {
    const { clock, renewalPart = 0.2 } = this.#options
    const bundle = this.#bundle
    if (bundle === undefined) return false
    const lifetimeMs = bundle.notAfterMs - bundle.notBeforeMs
    return bundle.notAfterMs - clock.now() < lifetimeMs * renewalPart
  }

  /** Throws InvalidInput when it cannot be used; then nothing changes. */
  #adopt(stored: StoredRoot): void {
    const { store, log, extraRoots = '' } = this.#options
    const before = this.#bundle
    const roots = (stored.roots === '' ? stored.certificate : stored.roots) + extraRoots
    const bundle = parseBundle({
      certificate: { name: `ca-cert.pem of ${store.name}`, text: stored.certificate },
      key: { name: `ca-key.pem of ${store.name}`, text: stored.privateKey },
      chain: { name: `cert-chain.pem of ${store.name}`, text: '' },
      roots: { name: `root-cert.pem of ${store.name}`, text: roots },
    })
    this.#stored = stored
    this.#bundle = bundle
    const hasOtherKey = before !== undefined && !before.certificate.publicKey.equals(bundle.certificate.publicKey)
    if (hasOtherKey) log.warn({ store: store.name }, 'stored root was replaced by one with another key; taken over')
    else log.info({ store: store.name, until: new Date(bundle.notAfterMs).toISOString() }, 'root taken over')
    this.#listeners.tell()
  }
}

function isDifferent(one: RootTexts, other: RootTexts): boolean {
  const squeeze = (text: string): string => text.replaceAll(/\s+/g, '')
  return (
    squeeze(one.certificate) !== squeeze(other.certificate) ||
    squeeze(one.roots) !== squeeze(other.roots) ||
    squeeze(one.privateKey) !== squeeze(other.privateKey)
  )
}

/** A function, lest the compiler believes that a signal cannot abort while something is awaited. */
const isAborted = (signal: AbortSignal): boolean => signal.aborted
