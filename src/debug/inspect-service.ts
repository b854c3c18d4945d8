// SPDX-License-Identifier: Apache-2.0
// Serves `addressd.inspect.v1.Inspect`: questions of people, beside the streams of proxies. Reads the store and the clients, changes nothing,
// and answers only callers that are admitted.

import { status, type Server, type ServerWritableStream, type UntypedServiceImplementation } from '@grpc/grpc-js'
import type { Clock } from '../base/clock.js'
import { InvalidInput, formatError } from '../base/errors.js'
import { isLoopback } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import { loadInspectService, type ListRequest, type WhatIsAnswer, type WhatIsRequest } from '../wire/inspect.js'
import { ADDRESS_TYPE } from '../wire/messages.js'
import { parseQuestion, type Question } from '../wire/question.js'
import { parseCaller } from '../xds/caller.js'
import type { ClientView } from '../xds/client-view.js'
import type { ResourceStore } from '../xds/source.js'
import { createAnswer } from './answer.js'
import { toClientRows } from './client-rows.js'
import { Directory } from './directory.js'
import type { Explainer } from './explainer.js'
import { policyPages, servicePages, workloadPages } from './lists.js'
import { decodeResource } from './rows.js'
import { Watchers } from './watchers.js'

export interface InspectOptions {
  readonly store: ResourceStore
  /** Called at each question about clients. */
  readonly clients: () => readonly ClientView[]
  readonly clock: Clock
  readonly log: Logger
  readonly explainer?: Explainer | undefined
  /** Who may ask. Default: callers of this machine. */
  readonly admits?: ((call: InspectCall) => boolean) | undefined
  /** Most callers that watch at a time. Default 1000. */
  readonly mostWatchers?: number
}

/** What there is to judge a caller by. */
export type InspectCall = Pick<ServerWritableStream<unknown, unknown>, 'getPeer' | 'metadata'>

type Call<Request, Response> = ServerWritableStream<Request, Response>

/** Adds the service to a gRPC server that does not serve yet. Follows the store from now on. */
export function addInspectService(server: Server, options: InspectOptions): void {
  server.addService(loadInspectService(), createInspectHandlers(options))
}

function createInspectHandlers(options: InspectOptions): UntypedServiceImplementation {
  const { store, explainer, clock } = options
  const admits = options.admits ?? isCallerLocal
  const directory = new Directory(store.source(ADDRESS_TYPE), (resource) => {
    const decoded = decodeResource(resource)
    return decoded?.kind === 'service' ? decoded.service : undefined
  })
  const watchers = new Watchers<WhatIsAnswer>()
  store.onCommit((changes) => {
    directory.apply(changes.get(ADDRESS_TYPE) ?? [])
    watchers.wake()
  })

  const whatIs = (call: Call<WhatIsRequest, WhatIsAnswer>): void => {
    const text = call.request.question
    const question = readQuestion(text)
    if (question instanceof InvalidInput) {
      fail(call, status.INVALID_ARGUMENT, question.message)
      return
    }
    const make = (): WhatIsAnswer => createAnswer(text, question, { store, directory, explainer })
    if (call.request.watch) watch(call, make)
    else answerOnce(call, make())
  }

  const watch = (call: Call<WhatIsRequest, WhatIsAnswer>, make: () => WhatIsAnswer): void => {
    if (watchers.size >= (options.mostWatchers ?? 1000)) {
      fail(call, status.RESOURCE_EXHAUSTED, 'too many callers are watching; ask without watch')
      return
    }
    const isOpen = (): boolean => !call.cancelled && !call.destroyed
    const watcher = watchers.add(
      {
        isOpen,
        write: (answer) => call.write(answer),
        whenReady: (ready) => void call.once('drain', ready),
      },
      make,
    )
    call.on('cancelled', () => watcher.stop())
    call.on('close', () => watcher.stop())
  }

  const handle =
    <Request, Response>(answer: (call: Call<Request, Response>) => void | Promise<void>) =>
    (call: Call<Request, Response>): void => {
      call.on('error', () => undefined) // a caller that goes away is no event of ours
      if (!admits(call)) {
        fail(call, status.UNAUTHENTICATED, 'only callers of this machine may ask here')
        return
      }
      void (async () => {
        try {
          await answer(call)
        } catch (error) {
          options.log.warn({ peer: call.getPeer(), error: formatError(error) }, 'a question could not be answered')
          fail(call, status.INTERNAL, `the question could not be answered: ${formatError(error)}`)
        }
      })()
    }

  type Listing = Call<ListRequest, object>
  return {
    WhatIs: handle(whatIs),
    ListWorkloads: handle((call: Listing) =>
      sendPages(call, workloadPages(store, call.request), (workloads) => ({ workloads })),
    ),
    ListServices: handle((call: Listing) =>
      sendPages(call, servicePages(store, call.request), (services) => ({ services })),
    ),
    ListPolicies: handle((call: Listing) =>
      sendPages(call, policyPages(store, call.request), (policies) => ({ policies })),
    ),
    ListClients: handle((call: Listing) => {
      const clients = toClientRows(options.clients(), call.request, clock.now())
      if (clients.length > 0) call.write({ clients })
      call.end()
    }),
  }
}

function answerOnce(call: Call<WhatIsRequest, WhatIsAnswer>, answer: WhatIsAnswer): void {
  if (answer.found.length === 0) {
    fail(call, status.NOT_FOUND, `nobody has ${call.request.question}`)
    return
  }
  call.write(answer)
  call.end()
}

function readQuestion(text: string): Question | InvalidInput {
  try {
    return parseQuestion(text)
  } catch (error) {
    if (error instanceof InvalidInput) return error
    throw error
  }
}

/** Writes pages as fast as the caller reads, and lets the rest of the program run between two. */
async function sendPages<Row>(
  call: Call<ListRequest, object>,
  rows: Iterable<readonly Row[]>,
  toMessage: (page: readonly Row[]) => object,
): Promise<void> {
  for (const page of rows) {
    if (call.cancelled || call.destroyed) return
    const hasRoom = call.write(toMessage(page))
    await (hasRoom ? nextTurn() : roomOrEnd(call))
  }
  call.end()
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function roomOrEnd(call: Call<ListRequest, object>): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      call.off('drain', done).off('cancelled', done).off('close', done)
      resolve()
    }
    call.on('drain', done).on('cancelled', done).on('close', done)
  })
}

/** The peer is `ip:port`, IPv6 in brackets or not; behind the front, the front says it. */
function isCallerLocal(call: InspectCall): boolean {
  const peer = parseCaller(call.metadata)?.address ?? call.getPeer()
  const host = peer.slice(0, peer.lastIndexOf(':')).replace(/^\[|\]$/g, '')
  return isLoopback(host)
}

function fail<Request, Response>(call: Call<Request, Response>, code: status, details: string): void {
  call.emit('error', { code, details })
}
