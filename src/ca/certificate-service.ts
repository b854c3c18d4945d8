// SPDX-License-Identifier: Apache-2.0
// Serves `istio.v1.auth.IstioCertificateService`: a certificate for whoever proved who it is, or for a workload on the node of a trusted proxy.
// Callers that are refused learn that they are, never why; the log says why. Logs no request and no token.

import type { Server, ServerUnaryCall, sendUnaryData } from '@grpc/grpc-js'
import type { Caller } from '../base/caller.js'
import { sleep } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { ProtocolError, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { shortenText } from '../base/short-text.js'
import { loadCertificateService } from '../wire/certificate.js'
import type { CertificateRequest, CertificateResponse } from '../wire/certificate.js'
import { checkImpersonation } from './impersonation.js'
import type { ImpersonationRules, Refusal } from './impersonation.js'
import type { CertificateMetrics } from './metrics.js'
import { RequestRefused, SigningUnavailable } from './signer.js'
import type { Signer } from './signer.js'

/** What there is to judge a caller by. */
export type CertificateCall = Pick<ServerUnaryCall<unknown, unknown>, 'getPeer' | 'metadata'>

export interface CertificateServiceOptions extends ImpersonationRules {
  readonly signer: Signer
  /** Who calls. Undefined, or a ProtocolError: nobody who could prove it; the error's status is what the caller is told. */
  readonly authenticate: (call: CertificateCall) => Promise<Caller | undefined> | undefined
  /** False: the service is not there for this call (a port in the clear while there is one with TLS). Default: always there. */
  readonly isServed?: (call: CertificateCall) => boolean
  /** Whether header `clusterid` names the cluster whose pods are known. Default: only an empty one does. */
  readonly isLocalCluster?: (clusterId: string) => boolean
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: CertificateMetrics
  /** A node may ask before its pods are known here: how long an answer may wait for that. Default 1000. */
  readonly patienceMs?: number
}

/** Those of gRPC that are used here; its package is loaded only where calls arrive. */
const status = { INVALID_ARGUMENT: 3, UNIMPLEMENTED: 12, INTERNAL: 13, UNAVAILABLE: 14, UNAUTHENTICATED: 16 }

/** Answers that wait at a time; beyond it callers are refused at once and come again. */
const mostWaiting = 200
const lookAgainMs = 50
const longestLogged = 200

/** Adds the service to a gRPC server that does not serve yet. */
export function addCertificateService(server: Pick<Server, 'addService'>, options: CertificateServiceOptions): void {
  const service = new CertificateService(options)
  server.addService(loadCertificateService(), {
    CreateCertificate: (
      call: ServerUnaryCall<CertificateRequest, CertificateResponse>,
      answer: sendUnaryData<CertificateResponse>,
    ) => {
      service.create(call).then(
        (chain) => answer(null, { cert_chain: chain }),
        (error: unknown) => {
          const failure: { readonly code: number; readonly details: string } =
            error instanceof ProtocolError
              ? { code: error.status, details: error.message }
              : { code: status.INTERNAL, details: 'the certificate could not be made' }
          answer(failure)
        },
      )
    },
  })
}

class CertificateService {
  readonly #options: CertificateServiceOptions
  #waiting = 0

  constructor(options: CertificateServiceOptions) {
    this.#options = options
  }

  /** The chain. Rejects with ProtocolError that says what the caller may know. */
  async create(call: ServerUnaryCall<CertificateRequest, CertificateResponse>): Promise<string[]> {
    const { isServed, metrics, log, signer } = this.#options
    if (isServed?.(call) === false) throw new ProtocolError('no such method', status.UNIMPLEMENTED)
    metrics.count('citadel_server_csr_count')
    const caller = await this.#authenticate(call)
    const { csr = '', validity_duration: ttl = '0' } = call.request
    const names = await this.#selectNames(caller, call)
    try {
      const chain = await signer.sign({ request: csr, names, ttlSeconds: BigInt(ttl) })
      metrics.count('citadel_server_success_cert_issuance_count')
      log.debug({ caller: caller.identities, names }, 'certificate given out')
      return chain
    } catch (error) {
      const isRefused = error instanceof RequestRefused
      metrics.countFault(isRefused || error instanceof SigningUnavailable ? error.fault : 'UNKNOWN')
      const fields = { caller: caller.identities, names, error: formatError(error) }
      if (isRefused) {
        log.warn(fields, 'signing request refused')
        throw new ProtocolError(error.message, status.INVALID_ARGUMENT, error)
      }
      log.error(fields, 'certificate could not be made')
      throw new ProtocolError('the certificate could not be made', status.INTERNAL, error)
    }
  }

  async #authenticate(call: CertificateCall): Promise<Caller> {
    const { authenticate, metrics, log } = this.#options
    let caller: Caller | undefined
    let code: number = status.UNAUTHENTICATED
    let why = 'no proof'
    try {
      caller = await authenticate(call)
    } catch (error) {
      why = formatError(error)
      if (error instanceof ProtocolError) code = error.status
    }
    if (caller === undefined) {
      metrics.count('citadel_server_authentication_failure_count')
      log.warn({ peer: call.getPeer(), reason: why }, 'caller of the certificate service not authenticated')
      throw new ProtocolError(
        code === status.UNAVAILABLE
          ? 'it cannot be found out who the caller is; try again'
          : 'the caller did not prove who it is',
        code,
      )
    }
    if (caller.identities.length > 0) return caller
    metrics.count('citadel_server_id_extraction_err_count')
    log.warn({ peer: call.getPeer(), source: caller.source }, 'caller of the certificate service has no identity')
    throw new ProtocolError('the caller did not prove who it is', status.UNAUTHENTICATED)
  }

  /** What the certificate is to name; what the signing request names counts for nothing. */
  async #selectNames(
    caller: Caller,
    call: ServerUnaryCall<CertificateRequest, CertificateResponse>,
  ): Promise<readonly string[]> {
    const wanted = call.request.metadata?.fields?.['ImpersonatedIdentity']
    if (wanted === undefined || wanted.nullValue !== undefined || wanted.stringValue === '') return caller.identities
    const identity = wanted.stringValue
    if (identity === undefined) {
      throw new ProtocolError('ImpersonatedIdentity must be a text', status.INVALID_ARGUMENT)
    }
    const refusal = await this.#judge(caller, identity, call)
    if (refusal === undefined) return [identity]
    const { metrics, log } = this.#options
    metrics.count('citadel_server_authentication_failure_count')
    const shown = shortenText(identity, longestLogged)
    log.warn({ caller: caller.identities, identity: shown, reason: refusal.reason }, 'impersonation refused')
    throw new ProtocolError('the caller may not have a certificate for that identity', status.UNAUTHENTICATED)
  }

  async #judge(caller: Caller, identity: string, call: CertificateCall): Promise<Refusal | undefined> {
    const { clock, patienceMs = 1_000, isLocalCluster } = this.#options
    const clusterId = call.metadata.get('clusterid').at(-1)?.toString() ?? ''
    if (clusterId !== '' && isLocalCluster?.(clusterId) !== true) {
      return {
        reason: `nothing is known of the pods of cluster ${shortenText(clusterId, longestLogged)}`,
        mayPass: false,
      }
    }
    const untilMs = clock.monotonic() + patienceMs
    let refusal = checkImpersonation(caller, identity, this.#options)
    if (refusal?.mayPass !== true || this.#waiting >= mostWaiting) return refusal
    this.#waiting++
    try {
      while (refusal?.mayPass === true && clock.monotonic() < untilMs) {
        await sleep(clock, lookAgainMs, never)
        refusal = checkImpersonation(caller, identity, this.#options)
      }
    } finally {
      this.#waiting--
    }
    return refusal
  }
}

const never = new AbortController().signal
