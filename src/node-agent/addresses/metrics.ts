// SPDX-License-Identifier: Apache-2.0
// What the address book tells a monitor: whether the control plane answers, what is kept, what came over the wire.

import { Counter, Gauge, type Registry } from 'prom-client'
import type { Book } from './book.js'

/** Registers all; gives the counter of lookups. */
export function addMetrics(registry: Registry, book: Book): Counter<'standing'> {
  const registers = [registry]
  new Gauge({
    name: 'addressd_node_control_plane_connected',
    help: 'Whether the control plane answers on the stream that is open',
    registers,
    collect() {
      this.set(book.isGood ? 1 : 0)
    },
  })
  new Gauge({
    name: 'addressd_node_addresses',
    help: 'What is kept: own = workloads of this node, others = what was looked up, found and nobody = keys and their answers',
    labelNames: ['kind'],
    registers,
    collect() {
      const { held, asked } = book
      this.set({ kind: 'own' }, held.ownSize)
      this.set({ kind: 'others' }, held.size - held.ownSize)
      this.set({ kind: 'found' }, asked.size - asked.nobodySize)
      this.set({ kind: 'nobody' }, asked.nobodySize)
    },
  })
  new Gauge({
    name: 'addressd_node_received_addresses',
    help: 'Messages of the control plane since the start, by what they were',
    labelNames: ['kind'],
    registers,
    collect() {
      const { responses, resources, removals, rejected } = book.received
      this.set({ kind: 'responses' }, responses)
      this.set({ kind: 'resources' }, resources)
      this.set({ kind: 'removals' }, removals)
      this.set({ kind: 'rejected' }, rejected)
    },
  })
  return new Counter({
    name: 'addressd_node_lookups_total',
    help: 'Questions answered, by how sure the answer was',
    labelNames: ['standing'],
    registers,
  })
}
