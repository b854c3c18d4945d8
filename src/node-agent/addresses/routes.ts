// SPDX-License-Identifier: Apache-2.0
// The page of the local socket that answers "what is this?". For people on the node; changes nothing.

import { toJsonReply, type AdminReply, type AdminRoute } from '../../base/admin-http.js'
import { InvalidInput, Retryable } from '../../base/errors.js'
import { WHATIS_PATH, type NodeAnswer, type NodeRefusal } from '../../wire/node-answer.js'
import type { Answered } from './answer.js'

/** Asks the book; rejects with InvalidInput for what is no question, with Retryable when too many wait. */
export type Look = (question: string) => Promise<Answered>

/** One route; `reason` says why the control plane is away, empty when nothing is known. */
export function createWhatIsRoutes(look: Look, reason: () => string): readonly AdminRoute[] {
  return [
    {
      path: WHATIS_PATH,
      methods: ['GET'],
      about: 'what is this address or name? (?q=QUESTION)',
      async handle({ query }) {
        try {
          return toReply(await look(query.get('q') ?? ''), query, reason())
        } catch (error) {
          if (error instanceof InvalidInput) return refuse(error.message, 400)
          if (error instanceof Retryable) return refuse(error.message, 503)
          throw error
        }
      },
    },
  ]
}

function toReply(answered: Answered, query: URLSearchParams, reason: string): AdminReply {
  const { standing, answer, lastSeenMs } = answered
  const isFound = answer.found.length > 0
  const why = reason === '' ? '' : ` (${reason})`
  if (standing === 'unknown' && !isFound) {
    const since =
      lastSeenMs === undefined
        ? 'the control plane was never reached'
        : `the control plane is away since ${new Date(lastSeenMs).toISOString()}`
    return refuse(`${answer.question} was never asked for on this node, and ${since}${why}`, 503)
  }
  if (standing === 'late' && !isFound) return refuse(`the control plane did not answer in time`, 504)
  const isStale = standing === 'stale' || standing === 'unknown'
  const body: NodeAnswer = {
    answer,
    stale: isStale,
    ageSeconds: isStale ? Math.floor((answered.ageMs ?? 0) / 1000) : 0,
    awaySince: isStale && lastSeenMs !== undefined ? new Date(lastSeenMs).toISOString() : '',
    complete: standing === 'current' || standing === 'stale',
  }
  return toJsonReply(body, query, isFound ? 200 : 404)
}

function refuse(error: string, status: number): AdminReply {
  const body: NodeRefusal = { error }
  return toJsonReply(body, new URLSearchParams(), status)
}
