// SPDX-License-Identifier: Apache-2.0
// What this program asks of an API server: one HTTP request, its answer as a stream. For the reflectors and for those who write objects
// back. Says nothing of credentials.

import type { Readable } from 'node:stream'
import { InvalidInput, Retryable } from '../base/errors.js'

export interface KubeRequest {
  /** GET when left out. */
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path and query, beginning with a slash. */
  readonly path: string
  /** Media types to accept, in order; application/json when left out. */
  readonly accept?: string
  readonly contentType?: string
  readonly body?: string
}

export interface KubeResponse {
  readonly status: number
  /** Lower case, with its parameters. */
  readonly contentType: string
  /** The server asks to wait so long. */
  readonly retryAfterMs: number | undefined
  /** To be read to its end or destroyed. */
  readonly body: Readable
}

/** An API server. */
export interface KubeApi {
  /** Its address, for logs. */
  readonly server: string
  /**
   * Resolves with any HTTP status as soon as the headers are there. Rejects with Retryable when the server cannot be reached or the
   * credentials cannot be read, and with the signal's reason when it aborts, which also destroys the body.
   */
  send(request: KubeRequest, signal: AbortSignal): Promise<KubeResponse>
  /** Closes idle connections. */
  close(): void
}

/** Reads a whole body. Rejects with Retryable when it is cut off or longer than `limitBytes`. */
export async function readBody(response: KubeResponse, limitBytes = 1024 * 1024 * 1024): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      length += chunk.length
      if (length > limitBytes) throw new InvalidInput(`an answer of the API server is longer than ${limitBytes} bytes`)
    }
  } catch (error) {
    throw new Retryable('the API server cut off its answer', error)
  }
  const only = chunks[0]
  return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, length)
}
