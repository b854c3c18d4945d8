// SPDX-License-Identifier: Apache-2.0
// What is counted of the conversations with ztunnels. One per registry.

import { Counter, Gauge, Histogram } from 'prom-client'
import type { Registry } from 'prom-client'

export type MessageKind = 'add' | 'keep' | 'remove' | 'snapshot_sent'
export type Outcome = 'ack' | 'nack' | 'timeout'

export class ZdsMetrics {
  readonly connected: Gauge
  readonly #outcomes: Counter<'message' | 'outcome'>
  readonly #snapshot: Histogram
  readonly #closed: Counter<'reason'>

  constructor(registry: Registry) {
    const registers = [registry]
    this.connected = new Gauge({
      name: 'ztunnel_connected',
      help: 'Connections of ztunnels that are in use.',
      registers,
    })
    this.#outcomes = new Counter({
      name: 'addressd_node_zds_messages_total',
      help: 'Messages to ztunnels, by kind and by what became of them.',
      labelNames: ['message', 'outcome'],
      registers,
    })
    this.#snapshot = new Histogram({
      name: 'addressd_node_zds_snapshot_seconds',
      help: 'Time from the greeting of a ztunnel to its acknowledgement of the end of the snapshot.',
      buckets: [0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 30],
      registers,
    })
    this.#closed = new Counter({
      name: 'addressd_node_zds_closed_total',
      help: 'Connections that were closed from this side, by reason.',
      labelNames: ['reason'],
      registers,
    })
  }

  count(message: MessageKind, outcome: Outcome): void {
    this.#outcomes.inc({ message, outcome })
  }

  observeSnapshot(ms: number): void {
    this.#snapshot.observe(ms / 1000)
  }

  countClosed(reason: 'timeout' | 'protocol' | 'user' | 'stale'): void {
    this.#closed.inc({ reason })
  }
}
