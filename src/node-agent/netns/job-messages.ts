// SPDX-License-Identifier: Apache-2.0
// What the main thread and a worker thread say to each other. Errors keep their class across it.

import { Fatal, InvalidInput, Retryable } from '../../base/errors.js'
import type { Fields } from '../../base/log.js'
import { SystemCallError } from './sys.js'

export interface JobRequest {
  readonly id: number
  readonly job: string
  readonly fd: number | undefined
  readonly args: unknown
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** `home`: the thread's descriptor of its own namespace, said once; whoever sees the thread end closes it. */
export type WorkerMessage =
  | { readonly kind: 'home'; readonly fd: number }
  | { readonly kind: 'result'; readonly id: number; readonly result: unknown }
  | { readonly kind: 'failure'; readonly id: number; readonly error: ErrorParts }
  | { readonly kind: 'log'; readonly level: LogLevel; readonly fields: Fields; readonly message: string }

/** An error as plain values. */
export interface ErrorParts {
  readonly name: string
  readonly message: string
  readonly code: string | undefined
  readonly call: string | undefined
}

export function toErrorParts(error: unknown): ErrorParts {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), code: undefined, call: undefined }
  const { code, call } = error as { code?: unknown; call?: unknown }
  return {
    name: error.name,
    message: error.message,
    code: typeof code === 'string' ? code : undefined,
    call: typeof call === 'string' ? call : undefined,
  }
}

/** The error again, of its class where it is one of ours, else a plain Error with the `code` it had. */
export function fromErrorParts(parts: ErrorParts): Error {
  if (parts.name === 'InvalidInput') return new InvalidInput(parts.message)
  if (parts.name === 'Retryable') return new Retryable(parts.message)
  if (parts.name === 'Fatal') return new Fatal(parts.message)
  if (parts.name === 'SystemCallError') return new SystemCallError(parts.call ?? '', parts.code ?? '')
  const error = new Error(parts.name === 'Error' ? parts.message : `${parts.name}: ${parts.message}`)
  return parts.code === undefined ? error : Object.assign(error, { code: parts.code })
}
