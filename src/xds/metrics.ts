// SPDX-License-Identifier: Apache-2.0
// What is counted of streams, pushes and calls, under the names that dashboards for this kind of control plane already use. Counts only; decides nothing.

import type { Registry } from 'prom-client'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../wire/messages.js'
import { Histograms, Numbers } from './tally.js'
import type { Buckets, Cell } from './tally.js'

const pushSeconds = [0.01, 0.1, 0.5, 1, 3, 5, 10, 20, 30]
const waitSeconds = [0.1, 0.5, 1, 3, 5, 10, 20, 30]
const sendSeconds = [0.01, 0.1, 1, 3, 5, 10, 20, 30]
const sizeBytes = [1, 1e4, 1e6, 4e6, 1e7, 4e7]
/** Versions of clients that get a label of their own. */
const mostVersions = 64
const handlingSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** What belongs to one type, at hand for hot paths. */
export interface TypeCells {
  readonly pushes: Cell
  readonly pushTime: Buckets
  readonly size: Buckets
}

/** Types by the short names of logs and metrics; what nobody makes is one name, lest clients make labels. */
export function toShortType(typeUrl: string): string {
  if (typeUrl === ADDRESS_TYPE || typeUrl === WORKLOAD_TYPE) return 'wds'
  if (typeUrl === AUTHORIZATION_TYPE) return 'wads'
  return typeUrl.startsWith('istio.io/debug') ? 'debug' : 'unknown'
}

export class XdsMetrics {
  readonly #clients: Numbers
  readonly #versions = new Set<string>()
  readonly #pushes: Numbers
  readonly #pushTime: Histograms
  readonly #size: Histograms
  readonly #rejects: Numbers
  readonly #stale: Numbers
  readonly #writeTimeouts: Numbers
  readonly #errors: Numbers
  readonly #received: Cell
  readonly #types = new Map<string, TypeCells>()
  readonly sendTime: Buckets
  readonly convergence: Buckets
  readonly queue: Buckets
  readonly calls: CallMetrics

  constructor(registry: Registry) {
    const counter = (name: string, help: string): Numbers => new Numbers(registry, 'counter', name, help)
    const gauge = (name: string, help: string): Numbers => new Numbers(registry, 'gauge', name, help)
    this.#clients = gauge('pilot_xds', 'Clients that are connected.')
    this.#pushes = counter('pilot_xds_pushes', 'Responses sent, by type.')
    this.#pushTime = new Histograms(
      registry,
      'pilot_xds_push_time',
      'Seconds to build and write a response.',
      pushSeconds,
    )
    this.#size = new Histograms(registry, 'pilot_xds_config_size_bytes', 'Size of responses in bytes.', sizeBytes)
    this.#rejects = counter('pilot_total_xds_rejects', 'Responses that clients rejected.')
    this.#stale = counter('pilot_xds_expired_nonce', 'Requests that named an older response than the last.')
    this.#writeTimeouts = counter('pilot_xds_write_timeout', 'Streams closed because their client stopped reading.')
    this.#errors = counter('pilot_total_xds_internal_errors', 'Failures of this server while it served a stream.')
    this.#received = gauge('pilot_xds_recv_max', 'Size of the largest request so far in bytes.').cell()
    this.sendTime = new Histograms(
      registry,
      'pilot_xds_send_time',
      'Seconds until a response was taken.',
      sendSeconds,
    ).cell()
    this.convergence = new Histograms(
      registry,
      'pilot_proxy_convergence_time',
      'Seconds from a change until all of it was written to a client.',
      waitSeconds,
    ).cell()
    this.queue = new Histograms(
      registry,
      'pilot_proxy_queue_time',
      'Seconds that a change waited for a client that was busy.',
      waitSeconds,
    ).cell()
    this.calls = new CallMetrics(registry)
  }

  type(typeUrl: string): TypeCells {
    const known = this.#types.get(typeUrl)
    if (known !== undefined) return known
    const short = toShortType(typeUrl)
    const label = typeLabel(typeUrl)
    const cells: TypeCells = {
      pushes: this.#pushes.cell({ type: short }),
      pushTime: this.#pushTime.cell({ type: short }),
      size: this.#size.cell({ type: label }),
    }
    if (label === typeUrl) this.#types.set(typeUrl, cells)
    return cells
  }

  connected(version: string, by: 1 | -1): void {
    this.#clients.cell({ version: this.#versionLabel(version) }).value += by
  }

  /** Clients write their version themselves: what is no version, and what comes after many, is one label. */
  #versionLabel(version: string): string {
    if (this.#versions.has(version)) return version
    if (!/^[\w.+-]{0,64}$/.test(version) || this.#versions.size >= mostVersions) return 'unknown'
    this.#versions.add(version)
    return version
  }

  rejected(typeUrl: string): void {
    this.#rejects.cell({ type: typeLabel(typeUrl) }).value++
  }

  stale(typeUrl: string): void {
    this.#stale.cell({ type: typeLabel(typeUrl) }).value++
  }

  writeTimeout(): void {
    this.#writeTimeouts.cell().value++
  }

  internalError(): void {
    this.#errors.cell().value++
  }

  received(bytes: number): void {
    if (bytes > this.#received.value) this.#received.value = bytes
  }
}

function typeLabel(typeUrl: string): string {
  const short = toShortType(typeUrl)
  if (short === 'debug') return 'istio.io/debug'
  return short === 'unknown' ? short : typeUrl
}

const codes = [
  'OK',
  'Canceled',
  'Unknown',
  'InvalidArgument',
  'DeadlineExceeded',
  'NotFound',
  'AlreadyExists',
  'PermissionDenied',
  'ResourceExhausted',
  'FailedPrecondition',
  'Aborted',
  'OutOfRange',
  'Unimplemented',
  'Internal',
  'Unavailable',
  'DataLoss',
  'Unauthenticated',
]

/** How a call carries messages; the rest are unary. */
const streams: Readonly<Record<string, string>> = {
  DeltaAggregatedResources: 'bidi_stream',
  StreamAggregatedResources: 'bidi_stream',
  ServerReflectionInfo: 'bidi_stream',
  Watch: 'server_stream',
}

/** Cells of one method. */
export interface CallCells {
  readonly started: Cell
  readonly received: Cell
  readonly sent: Cell
  /** A call of the method ended with this gRPC status after so many seconds. */
  handled(status: number, seconds: number): void
}

/** Calls to the whole port, whoever serves them. */
export class CallMetrics {
  readonly #started: Numbers
  readonly #handled: Numbers
  readonly #received: Numbers
  readonly #sent: Numbers
  readonly #seconds: Histograms
  readonly #methods = new Map<string, CallCells>()

  constructor(registry: Registry) {
    const counter = (name: string, help: string): Numbers => new Numbers(registry, 'counter', name, help)
    this.#started = counter('grpc_server_started_total', 'Calls started.')
    this.#handled = counter('grpc_server_handled_total', 'Calls ended, by status.')
    this.#received = counter('grpc_server_msg_received_total', 'Messages received.')
    this.#sent = counter('grpc_server_msg_sent_total', 'Messages sent.')
    this.#seconds = new Histograms(
      registry,
      'grpc_server_handling_seconds',
      'Seconds that calls took.',
      handlingSeconds,
    )
  }

  /** `path` is `/service/method` of a method that exists. */
  method(path: string): CallCells {
    const known = this.#methods.get(path)
    if (known !== undefined) return known
    const [, service = '', method = ''] = path.split('/')
    const labels = { grpc_type: streams[method] ?? 'unary', grpc_service: service, grpc_method: method }
    const seconds = this.#seconds.cell(labels)
    const cells: CallCells = {
      started: this.#started.cell(labels),
      received: this.#received.cell(labels),
      sent: this.#sent.cell(labels),
      handled: (status, took) => {
        this.#handled.cell({ ...labels, grpc_code: codes[status] ?? 'Unknown' }).value++
        seconds.observe(took)
      },
    }
    this.#methods.set(path, cells)
    return cells
  }
}
