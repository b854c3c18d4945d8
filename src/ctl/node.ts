// SPDX-License-Identifier: Apache-2.0
// Asks the agent of this node over its local socket, without any control plane. For `whatis --node`; says in exit codes what went wrong.

import { request } from 'node:http'
import type { Clock } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import { WHATIS_PATH, type NodeAnswer, type NodeRefusal } from '../wire/node-answer.js'
import { CtlFailure } from './failure.js'

export interface NodeAskOptions {
  readonly socket: string
  readonly clock: Clock
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

/** The answer; its `found` is empty when nobody has it. Throws CtlFailure with 2 for what is no question and 3 when it could not be asked. */
export async function askNode(question: string, options: NodeAskOptions): Promise<NodeAnswer> {
  const { socket } = options
  const { status, text } = await get(`${WHATIS_PATH}?q=${encodeURIComponent(question)}`, options)
  const body = parseBody(text)
  if ((status === 200 || status === 404) && 'answer' in body) return body
  const error = 'error' in body ? body.error : `it answered with status ${status}`
  if (status === 400) throw new CtlFailure(2, error)
  if ('error' in body) throw new CtlFailure(3, `the node does not know: ${error}`)
  throw new CtlFailure(3, `could not ask ${socket}: ${error}. Is it addressd-node?`)
}

interface Page {
  readonly status: number
  readonly text: string
}

function get(path: string, options: NodeAskOptions): Promise<Page> {
  const { socket, clock, timeoutMs, signal } = options
  return new Promise((resolve, reject) => {
    const fail = (reason: string, cause?: unknown): void => {
      timer.cancel()
      call.destroy()
      reject(new CtlFailure(3, `could not ask ${socket}: ${reason}. ${howToChoose}`, cause))
    }
    const call = request({ socketPath: socket, path, agent: false, signal }, (response) => {
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part))
      response.on('error', (error) => fail(toReason(error), error))
      response.on('end', () => {
        timer.cancel()
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() })
      })
    })
    const timer = clock.after(timeoutMs, () => fail(`it did not answer within ${timeoutMs} ms`))
    call.on('error', (error) => fail(toReason(error), error))
    call.end()
  })
}

function parseBody(text: string): NodeAnswer | NodeRefusal | object {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null ? body : {}
  } catch {
    // Whatever listens there, it is not an agent: the status says the rest.
    return {}
  }
}

function toReason(error: Error): string {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOENT') return 'there is no such socket'
  if (code === 'ECONNREFUSED') return 'nobody listens there'
  if (code === 'EACCES') return 'only its owner, usually root, may ask there'
  return formatError(error)
}

const howToChoose =
  'Is addressd-node running on this node? Another socket is chosen with --node-socket PATH or ADDRESSD_NODE_SOCKET.'
