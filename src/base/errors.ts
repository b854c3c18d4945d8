// SPDX-License-Identifier: Apache-2.0
// The four kinds of failure. Callers decide by class, never by text. Messages name the object and hint at the fix.

abstract class CodedError extends Error {
  abstract readonly code: string
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = new.target.name
  }
}

/** What somebody gave us is wrong (an object, a setting, a request): skip it, say which and why. Trying again with the same input is useless. */
export class InvalidInput extends CodedError {
  readonly code = 'INVALID_INPUT'
}

/** The outside is not ready (API server away, connection lost): try again later. */
export class Retryable extends CodedError {
  readonly code = 'RETRYABLE'
}

/** The process cannot do its job: say why and stop. */
export class Fatal extends CodedError {
  readonly code = 'FATAL'
}

/** A peer broke the protocol it speaks with us: its stream ends, nobody else's does. `status` is a gRPC status code. */
export class ProtocolError extends CodedError {
  readonly code = 'PROTOCOL_ERROR'
  constructor(
    message: string,
    readonly status: number,
    cause?: unknown,
  ) {
    super(message, cause)
  }
}

/** Any thrown value as text for a log line. */
export function formatError(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
