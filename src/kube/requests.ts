// SPDX-License-Identifier: Apache-2.0
// One request of a reflector: with a deadline on the clock, with every answer that is not a success as an error by class. For list.ts and
// watch.ts.

import type { Clock } from '../base/clock.js'
import { Retryable, formatError } from '../base/errors.js'
import { readBody, type KubeApi, type KubeRequest, type KubeResponse } from './api.js'
import type { Encoding, ServerStatus } from './wire.js'
import { jsonEncoding } from './wire-json.js'
import { protobufEncoding } from './wire-protobuf.js'

/** The server answered, and not with a success. */
export class HttpFailure extends Retryable {
  constructor(
    message: string,
    readonly status: number,
    readonly retryAfterMs?: number,
  ) {
    super(message)
  }
}

/** The version we asked to go on from is no longer there: list again. */
export class Gone extends Retryable {}

/** Nothing came in the time there was. */
export class TimedOut extends Retryable {}

/**
 * Runs `task` with a signal that aborts with the outer one, or with TimedOut after `ms` unless the task called `reached` before.
 * The task must not outlive its promise.
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  task: (signal: AbortSignal, reached: () => void) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const controller = new AbortController()
  const onAbort = (): void => controller.abort(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const timer = clock.after(ms, () => controller.abort(new TimedOut(`the API server did not answer in ${ms} ms`)))
  try {
    return await task(controller.signal, () => timer.cancel())
  } catch (error) {
    // A body that was destroyed by the signal reports a broken stream: say why it was.
    throw controller.signal.aborted && controller.signal.reason instanceof Error ? controller.signal.reason : error
  } finally {
    timer.cancel()
    signal.removeEventListener('abort', onAbort)
  }
}

/** The encoding of an answer. */
export function selectEncoding(response: KubeResponse): Encoding {
  return response.contentType.startsWith(protobufEncoding.contentType) ? protobufEncoding : jsonEncoding
}

/** Sends; throws HttpFailure (Gone for 410) when the status is not 200. `what` names verb and resource for the message. */
export async function sendChecked(
  api: KubeApi,
  request: KubeRequest,
  what: string,
  signal: AbortSignal,
): Promise<KubeResponse> {
  const response = await api.send(request, signal)
  if (response.status === 200) return response
  const { reason, message } = await readStatus(response)
  const text = `${what}: the API server answers ${response.status}${reason === '' ? '' : ` ${reason}`}${message === '' ? '' : `: ${message}`}`
  if (response.status === 410) throw new Gone(text)
  throw new HttpFailure(text, response.status, response.retryAfterMs)
}

async function readStatus(response: KubeResponse): Promise<ServerStatus> {
  try {
    return selectEncoding(response).decodeStatus(await readBody(response, 1024 * 1024))
  } catch (error) {
    return { code: response.status, reason: '', message: formatError(error) }
  }
}
