// SPDX-License-Identifier: Apache-2.0
// Signing requests to certificate chains, in the order and profile that proxies expect. Judges keys, signatures and lifetimes; who the names
// belong to was judged before.

import type { KeyObject } from 'node:crypto'
import type { Clock } from '../base/clock.js'
import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import type { Authority } from './authority.js'
import { backdateMs, signLeaf } from './certificates.js'
import { formatPem } from './pem.js'
import { formatRoots } from './signing-bundle.js'
import type { SigningBundle } from './signing-bundle.js'
import { parseSigningRequest } from './signing-request.js'
import type { SigningRequest } from './signing-request.js'

/** Why nothing was signed, as metrics name it. */
export type SigningFault = 'CSR_ERROR' | 'TTL_ERROR' | 'CA_NOT_READY' | 'CERT_GEN_ERROR'

/** The request is at fault. */
export class RequestRefused extends InvalidInput {
  constructor(
    message: string,
    readonly fault: Extract<SigningFault, 'CSR_ERROR' | 'TTL_ERROR'>,
    cause?: unknown,
  ) {
    super(message, cause)
  }
}

/** We are at fault; later it may work. */
export class SigningUnavailable extends Retryable {
  constructor(
    message: string,
    readonly fault: Extract<SigningFault, 'CA_NOT_READY' | 'CERT_GEN_ERROR'>,
    cause?: unknown,
  ) {
    super(message, cause)
  }
}

export interface SignerOptions {
  readonly authority: Authority
  readonly clock: Clock
  /** For requests that name none. Default 86,400 (a day). */
  readonly defaultTtlSeconds?: number
  /** Longer ones are refused. Default 7,776,000 (90 days). */
  readonly maxTtlSeconds?: number
}

export interface SigningOrder {
  /** PEM. */
  readonly request: string
  /** The names in the certificate, at least one, in this order. */
  readonly names: readonly string[]
  /** Zero or less: the default. */
  readonly ttlSeconds: bigint
}

export class Signer {
  readonly #options: SignerOptions

  constructor(options: SignerOptions) {
    this.#options = options
  }

  /**
   * PEM texts: the leaf, each certificate of the chain, all roots in the last. Rejects with RequestRefused when the request is at fault,
   * with SigningUnavailable when there is nothing to sign with.
   */
  async sign({ request, names, ttlSeconds }: SigningOrder): Promise<string[]> {
    const ttlMs = this.#checkTtl(ttlSeconds) * 1000
    let parsed: SigningRequest
    try {
      parsed = await parseSigningRequest(request)
    } catch (error) {
      if (error instanceof InvalidInput) throw new RequestRefused(error.message, 'CSR_ERROR', error)
      throw error
    }
    const bundle = this.#bundle()
    const leaf = await this.#sign(bundle, { ...parsed, names, ttlMs })
    return [leaf, ...bundle.chain, formatRoots(bundle)]
  }

  /** A leaf for a key of our own in PEM, never longer than its issuer. Rejects with SigningUnavailable. */
  async signOwn(publicKey: KeyObject, names: readonly string[], ttlMs: number): Promise<string> {
    const spki = publicKey.export({ type: 'spki', format: 'der' })
    return this.#sign(this.#bundle(), { publicKey: spki, hasCommonName: false, names, ttlMs })
  }

  /** Compared before anything is calculated: numbers of any size may come. */
  #checkTtl(ttlSeconds: bigint): number {
    const { defaultTtlSeconds = 86_400, maxTtlSeconds = 7_776_000 } = this.#options
    if (ttlSeconds <= 0n) return defaultTtlSeconds
    if (ttlSeconds <= BigInt(maxTtlSeconds)) return Number(ttlSeconds)
    throw new RequestRefused(
      `the requested lifetime of ${ttlSeconds.toString()} s is longer than the longest allowed one of ${maxTtlSeconds} s (MAX_WORKLOAD_CERT_TTL)`,
      'TTL_ERROR',
    )
  }

  #bundle(): SigningBundle {
    const { bundle } = this.#options.authority
    if (bundle === undefined) throw new SigningUnavailable('the authority is not ready yet', 'CA_NOT_READY')
    return bundle
  }

  async #sign(
    bundle: SigningBundle,
    leaf: SigningRequest & { readonly names: readonly string[]; readonly ttlMs: number },
  ): Promise<string> {
    const nowMs = this.#options.clock.now()
    if (bundle.notAfterMs <= nowMs) {
      const end = new Date(bundle.notAfterMs).toISOString()
      throw new SigningUnavailable(`the signing certificate, or one above it, expired on ${end}`, 'CERT_GEN_ERROR')
    }
    const notAfterMs = Math.min(nowMs + leaf.ttlMs, bundle.notAfterMs)
    try {
      const der = await signLeaf({ ...leaf, notBeforeMs: nowMs - backdateMs, notAfterMs }, bundle.issuer)
      return formatPem('CERTIFICATE', der)
    } catch (error) {
      throw new SigningUnavailable(`signing failed: ${formatError(error)}`, 'CERT_GEN_ERROR', error)
    }
  }
}
