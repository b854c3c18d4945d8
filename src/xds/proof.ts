// SPDX-License-Identifier: Apache-2.0
// The wait before a delta stream begins: nothing of it is read until its caller has proved who it is. For the front. Decides nothing itself.

import type { ServerHttp2Stream } from 'node:http2'
import type { Caller } from '../base/caller.js'
import { ProtocolError, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { formatStatusMessage } from '../wire/grpc-frames.js'
import { closeAnswered } from './http2-stream.js'

const INTERNAL = 13

/** How a wait ended: with a caller, with the stream gone meanwhile, or with a refusal that was sent. */
export type ProofEnd =
  | { readonly kind: 'proved'; readonly caller: Caller }
  | { readonly kind: 'gone' }
  | { readonly kind: 'refused'; readonly status: number }

/** Waits for the proof and refuses the stream without it. Never rejects. What the client sends meanwhile stays in HTTP/2's windows. */
export async function awaitProof(
  stream: ServerHttp2Stream,
  proof: Promise<Caller>,
  log: Logger,
  peer: string,
): Promise<ProofEnd> {
  stream.on('error', () => undefined) // Nobody waits for it any more.
  try {
    const caller = await proof
    return stream.destroyed || stream.closed ? { kind: 'gone' } : { kind: 'proved', caller }
  } catch (error) {
    const { status, message } = toRefusal(error)
    if (error instanceof ProtocolError) log.info({ peer, error: message }, 'stream refused')
    else log.error({ peer, error: formatError(error) }, 'a caller could not be judged')
    refuseCall(stream, status, message)
    return { kind: 'refused', status }
  }
}

/** Status and sentence for a client; of what is no refusal it learns nothing. */
export function toRefusal(error: unknown): { readonly status: number; readonly message: string } {
  if (error instanceof ProtocolError) return { status: error.status, message: error.message }
  return { status: INTERNAL, message: 'internal error' }
}

/** As gRPC refuses a call that has not begun: headers alone, with a status. */
export function refuseCall(stream: ServerHttp2Stream, status: number, message: string): void {
  stream.on('error', () => undefined) // Nobody waits for it.
  if (stream.destroyed || stream.closed) return
  stream.respond(
    {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-status': String(status),
      'grpc-message': formatStatusMessage(message),
    },
    { endStream: true },
  )
  stream.resume()
  closeAnswered(stream)
}
