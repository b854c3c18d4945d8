// SPDX-License-Identifier: Apache-2.0
// `addressctl workloads`, `services`, `policies`, `clients`: everything of a kind, filtered, in the order of its names.

import { systemClock } from '../base/clock.js'
import type { ClientRow, PolicyRow, ServiceRow, WorkloadRow } from '../wire/inspect.js'
import { fromStruct, type StructMessage } from '../wire/struct.js'
import { Asker } from './asker.js'
import type { ListName, ListOptions } from './options.js'
import { CtlFailure } from './failure.js'
import { formatDocument, type CtlIo } from './output.js'
import { formatClients, formatPolicies, formatServices, formatWorkloads } from './text.js'

/** Throws CtlFailure when nobody could be asked. An empty list is an answer, and is said on stderr. */
export async function printList(name: ListName, options: ListOptions, io: CtlIo): Promise<void> {
  const asker = new Asker(options.server, io.clock ?? systemClock)
  try {
    await printers[name](asker, options, io)
  } finally {
    asker.close()
  }
}

const printers: Readonly<Record<ListName, (asker: Asker, options: ListOptions, io: CtlIo) => Promise<void>>> = {
  async workloads(asker, options, io) {
    const rows = await take<WorkloadRow>('ListWorkloads', asker, options, io)
    rows.sort(by((row) => [row.namespace, row.name, row.uid]))
    await print(rows, options, io, {
      name: 'workloads',
      toText: formatWorkloads,
      toDocument: (row) => toResource(row.resource),
    })
  },
  async services(asker, options, io) {
    const rows = await take<ServiceRow>('ListServices', asker, options, io)
    rows.sort(by((row) => [row.namespace, row.name, row.hostname]))
    await print(rows, options, io, {
      name: 'services',
      toText: formatServices,
      toDocument: (row) => ({
        ...toResource(row.resource),
        endpoints: { healthy: row.healthyMembers, total: row.membersTotal },
      }),
    })
  },
  async policies(asker, options, io) {
    const rows = await take<PolicyRow>('ListPolicies', asker, options, io)
    rows.sort(by((row) => [row.namespace, row.name]))
    await print(rows, options, io, {
      name: 'policies',
      toText: formatPolicies,
      toDocument: (row) => toResource(row.resource),
    })
  },
  async clients(asker, options, io) {
    const rows = await take<ClientRow>('ListClients', asker, options, io)
    rows.sort(by((row) => [row.cluster, row.namespace, row.name, row.connectionId]))
    await print(rows, options, io, { name: 'clients', toText: formatClients, toDocument: (row) => row })
  },
}

const fields = {
  ListWorkloads: 'workloads',
  ListServices: 'services',
  ListPolicies: 'policies',
  ListClients: 'clients',
} as const

async function take<Row>(method: keyof typeof fields, asker: Asker, options: ListOptions, io: CtlIo): Promise<Row[]> {
  const { namespace, node, output, timeoutMs } = options
  const request = { namespace, node, whole: output === 'json' || output === 'yaml' }
  const rows: Row[] = []
  const pages = asker.ask<Readonly<Record<string, readonly Row[]>>>(method, request, { signal: io.signal, timeoutMs })
  for await (const page of pages) for (const row of page[fields[method]] ?? []) rows.push(row)
  if (io.signal?.aborted === true) throw new CtlFailure(3, `interrupted before ${options.server} had said everything`)
  return rows
}

interface Printing<Row> {
  readonly name: ListName
  readonly toText: (rows: readonly Row[], isWide: boolean) => string
  readonly toDocument: (row: Row) => object
}

async function print<Row>(rows: readonly Row[], options: ListOptions, io: CtlIo, how: Printing<Row>): Promise<void> {
  const { output, namespace, node } = options
  if (output === 'json' || output === 'yaml') {
    io.stdout(await formatDocument(rows.map(how.toDocument), output))
    return
  }
  if (rows.length > 0) {
    io.stdout(how.toText(rows, output === 'wide'))
    return
  }
  const where = (namespace === '' ? '' : ` in namespace ${namespace}`) + (node === '' ? '' : ` on node ${node}`)
  io.stderr(`no ${how.name}${where}\n`)
}

function toResource(resource: StructMessage | null): Record<string, unknown> {
  return resource === null ? {} : fromStruct(resource)
}

/** Orders by the parts in turn, letter by letter. */
function by<Row>(toKey: (row: Row) => readonly string[]): (a: Row, b: Row) => number {
  return (a, b) => {
    const right = toKey(b)
    for (const [i, left] of toKey(a).entries()) {
      const other = right[i] ?? ''
      if (left !== other) return left < other ? -1 : 1
    }
    return 0
  }
}
