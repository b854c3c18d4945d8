// SPDX-License-Identifier: Apache-2.0
// Asks addressd over gRPC. For the commands; says in exit codes what went wrong, and never tries again by itself.

import {
  credentials,
  makeClientConstructor,
  status,
  type ClientReadableStream,
  type ServiceClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js'
import type { Clock } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import { INSPECT_SERVICE, loadInspectService } from '../wire/inspect.js'
import { CtlFailure } from './failure.js'

export interface AskOptions {
  readonly signal?: AbortSignal | undefined
  /** Longest time until everything is said; when the answer is endless, until the first of it is. */
  readonly timeoutMs: number
  readonly isEndless?: boolean
}

type Method = 'WhatIs' | 'ListWorkloads' | 'ListServices' | 'ListPolicies' | 'ListClients'

/** One server. Nothing is opened before the first question; close it, or the program stays alive. */
export class Asker {
  readonly #server: string
  readonly #clock: Clock
  readonly #client: InstanceType<ServiceClientConstructor>

  /** `server` is `host:port`. */
  constructor(server: string, clock: Clock) {
    this.#server = server
    this.#clock = clock
    const Client = makeClientConstructor(loadInspectService(), INSPECT_SERVICE)
    this.#client = new Client(server, credentials.createInsecure(), {
      'grpc.enable_http_proxy': 0,
      'grpc.max_receive_message_length': -1,
      'grpc.initial_reconnect_backoff_ms': 200,
      'grpc.max_reconnect_backoff_ms': 2_000,
    })
  }

  /** The messages of the answer as they come. Throws CtlFailure; ends quietly when the signal aborts. */
  async *ask<Answer>(method: Method, request: object, options: AskOptions): AsyncGenerator<Answer, void> {
    const { signal, timeoutMs } = options
    const isAborted = (): boolean => signal?.aborted === true
    if (isAborted()) return
    const start = this.#client[method] as (request: object) => ClientReadableStream<Answer>
    const call = start.call(this.#client, request)
    const late = { is: false }
    const cancel = (): void => call.cancel()
    const timer = this.#clock.after(timeoutMs, () => {
      late.is = true
      cancel()
    })
    signal?.addEventListener('abort', cancel, { once: true })
    try {
      for await (const answer of call) {
        if (options.isEndless === true) timer.cancel()
        yield answer as Answer
      }
    } catch (error) {
      if (late.is)
        throw new CtlFailure(3, `${this.#couldNot()}: it did not answer within ${timeoutMs} ms. ${howToChoose}`)
      if (!isAborted()) throw this.#toFailure(error)
    } finally {
      timer.cancel()
      signal?.removeEventListener('abort', cancel)
      call.cancel()
    }
  }

  close(): void {
    this.#client.close()
  }

  #couldNot(): string {
    return `could not ask ${this.#server}`
  }

  #toFailure(error: unknown): CtlFailure {
    const { code, details } = error as Partial<ServiceError>
    if (code === status.NOT_FOUND) return new CtlFailure(1, details ?? 'nobody has it', error)
    if (code === status.INVALID_ARGUMENT) return new CtlFailure(2, details ?? 'not a question', error)
    if (code === status.UNIMPLEMENTED) {
      return new CtlFailure(3, `${this.#couldNot()}: it does not know such questions. Is it addressd?`, error)
    }
    return new CtlFailure(3, `${this.#couldNot()}: ${toReason(details ?? formatError(error))}. ${howToChoose}`, error)
  }
}

/** What grpc-js wraps around the one thing that a person wants to know is left out. */
function toReason(details: string): string {
  const reason = details
    .replace(/^No connection established\. Last error: (Error: )?/, '')
    .replace(/\. Resolution note: $/, '')
  return reason.startsWith('Protocol error') ? 'what listens there does not speak gRPC' : reason
}

const howToChoose = 'Is addressd listening there? Another address is chosen with --server HOST:PORT or ADDRESSD_SERVER.'
