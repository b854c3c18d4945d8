// SPDX-License-Identifier: Apache-2.0
// How the fake API server answers: JSON, and Kubernetes' Status for what it refuses.

import type { ServerResponse } from 'node:http'
import type { Json } from './fake-apiserver-store.js'

export function toStatus(code: number, reason: string, message: string): Json {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code }
}

export function sendJson(response: ServerResponse, status: number, value: Json): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}

export function sendStatus(
  response: ServerResponse,
  code: number,
  reason: string,
  message: string,
  retryAfterSeconds?: number,
): void {
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds))
  sendJson(response, code, toStatus(code, reason, message))
}
