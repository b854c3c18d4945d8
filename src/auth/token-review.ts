// SPDX-License-Identifier: Apache-2.0
// Bearer tokens judged by a Kubernetes API server. For the TLS port, certificate requests and pages. One review serves all who show the same token at the same
// time; what cannot be judged is never denied: the caller may try again. Tokens are neither logged nor kept.

import type { Credentials } from '../base/caller.js'
import type { Clock } from '../base/clock.js'
import { Retryable, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { hashToken, selectBearer } from './bearer-token.js'
import { Gate } from './gate.js'
import { judgeReview } from './review-answer.js'
import { TokenMemory } from './token-memory.js'
import { absent, refuse, type Authenticator, type Verdict } from './verdict.js'

/**
 * Posts a TokenReview (JSON) to the API server and gives what it answered. Rejects when there was no answer, and soon after the signal aborts.
 */
export type SendReview = (
  review: string,
  signal: AbortSignal,
) => Promise<{ readonly status: number; readonly body: string }>

export interface TokenReviewOptions {
  readonly send: SendReview
  readonly clock: Clock
  readonly log: Logger
  /** A token must be for one of these. */
  readonly audiences: readonly string[]
  /** The id of the cluster whose API server is asked. */
  readonly clusterId: string
  /** Of the identities that are made, at each call. */
  readonly trustDomain: () => string
  readonly limits?: Partial<TokenReviewLimits>
}

export const tokenReviewLimits = {
  acceptedMs: 10_000,
  refusedMs: 1_000,
  outageMs: 60 * 60_000,
  remembered: 16_384,
  /** From the caller's arrival to the answer. */
  timeoutMs: 10_000,
  mostReviews: 64,
  mostWaiting: 16_384,
  longestToken: 16_384,
}

export type TokenReviewLimits = Readonly<typeof tokenReviewLimits>

/** How often an outage is spoken of. */
const outageWarningMs = 60_000

export function createTokenReview(options: TokenReviewOptions): Authenticator {
  return new TokenReview(options)
}

class TokenReview implements Authenticator {
  readonly name = 'token'
  readonly #options: TokenReviewOptions
  readonly #limits: TokenReviewLimits
  readonly #memory: TokenMemory
  readonly #gate: Gate
  /** By hash of the token. */
  readonly #underWay = new Map<string, Promise<Verdict>>()
  #warnedAtMs: number | undefined

  constructor(options: TokenReviewOptions) {
    this.#options = options
    this.#limits = { ...tokenReviewLimits, ...options.limits }
    const { acceptedMs, refusedMs, outageMs, remembered, mostReviews, mostWaiting } = this.#limits
    this.#memory = new TokenMemory({ clock: options.clock, acceptedMs, refusedMs, outageMs, most: remembered })
    this.#gate = new Gate(mostReviews, mostWaiting)
  }

  async judge(credentials: Credentials): Promise<Verdict> {
    const { authorization, clusterId = '' } = credentials
    if (authorization === undefined) return absent
    const token = selectBearer(authorization)
    if (token === undefined) return refuse('the authorization header is not written "Bearer TOKEN"')
    if (token.length > this.#limits.longestToken) return refuse('the token is too long')
    if (clusterId !== '' && clusterId !== this.#options.clusterId) {
      return refuse('the clusterid header names a cluster that is not served here')
    }
    const known = this.#memory.recall(token)
    if (known !== undefined) return known
    const hash = hashToken(token)
    const running = this.#underWay.get(hash)
    if (running !== undefined) return await running
    const review = this.#review(token).finally(() => this.#underWay.delete(hash))
    this.#underWay.set(hash, review)
    return await review
  }

  async #review(token: string): Promise<Verdict> {
    let answer: { readonly status: number; readonly body: string }
    try {
      answer = await this.#ask(token)
    } catch (error) {
      return this.#bridge(token, formatError(error))
    }
    const { status, body } = answer
    if (status === 429 || status >= 500) return this.#bridge(token, `it answered ${status}`)
    if (status !== 200 && status !== 201) {
      this.#options.log.error({ status }, 'the API server does not let this process review tokens')
      throw new Retryable('tokens cannot be checked: the API server refused to review one')
    }
    const answered = parseJson(body)
    if (answered === undefined) return this.#bridge(token, 'its answer is not JSON')
    const verdict = judgeReview(answered, this.#options.audiences, this.#options.trustDomain())
    this.#memory.remember(token, verdict)
    return verdict
  }

  async #ask(token: string): Promise<{ readonly status: number; readonly body: string }> {
    const { clock, send, audiences } = this.#options
    const { timeoutMs } = this.#limits
    const aborting = new AbortController()
    const timer = clock.after(timeoutMs, () => aborting.abort(new Retryable(`no answer in ${timeoutMs / 1000} s`)))
    try {
      return await this.#gate.pass(aborting.signal, async () => {
        const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token, audiences } }
        return await send(JSON.stringify(review), aborting.signal)
      })
    } finally {
      timer.cancel()
    }
  }

  /** The API server is away: who was accepted lately goes on, everybody else is to come back. */
  #bridge(token: string, reason: string): Verdict {
    const { clock, log } = this.#options
    const known = this.#memory.recallAccepted(token)
    const now = clock.monotonic()
    if (this.#warnedAtMs === undefined || now - this.#warnedAtMs >= outageWarningMs) {
      this.#warnedAtMs = now
      log.warn({ reason }, 'tokens cannot be reviewed; those that were accepted lately count until they expire')
    }
    if (known === undefined) throw new Retryable('tokens cannot be checked: the API server is not reachable')
    return known
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Something else than an API server answered.
    return undefined
  }
}
