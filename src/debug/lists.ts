// SPDX-License-Identifier: Apache-2.0
// Every workload, service and policy as pages of rows, filtered. A page is decoded when it is taken, so that fifty thousand rows never exist at once
// and serving goes on between two pages. For the Inspect service.

import { toAddressJson } from '../wire/address-json.js'
import { toServiceRow, toWorkloadRow } from '../wire/inspect-rows.js'
import type { ListRequest, PolicyRow, ServiceRow, WorkloadRow } from '../wire/inspect.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE } from '../wire/messages.js'
import { toStruct } from '../wire/struct.js'
import type { Resource, ResourceSource, ResourceStore } from '../xds/source.js'
import { isServiceName } from './directory.js'
import { decodePolicy, toPolicyRow } from './policy.js'
import { createWaypointNamer, decodeMember, decodeResource } from './rows.js'

const pageSize = 500
/** Services bring their members along to be counted, so a page of them is smaller. */
const servicePageSize = 50

/** Workloads in pages; an empty page is never given. */
export function* workloadPages(store: ResourceStore, request: ListRequest): Iterable<readonly WorkloadRow[]> {
  const source = store.source(ADDRESS_TYPE)
  if (source === undefined) return
  const nameWaypoint = createWaypointNamer(source)
  const resources = request.node === '' ? source.all() : source.local(request.node)
  const workloads = [...resources].filter((resource) => !isServiceName(resource.name))
  yield* pages(workloads, pageSize, (resource) => {
    const decoded = decodeResource(resource)
    if (decoded?.kind !== 'workload' || !isIn(decoded.workload.namespace, request)) return undefined
    const row = toWorkloadRow(decoded.workload, nameWaypoint)
    return request.whole ? { ...row, resource: toStruct(toAddressJson(decoded, { ip: 'text' })) } : row
  })
}

/** Services in pages; with a node, those that have a member on it. */
export function* servicePages(store: ResourceStore, request: ListRequest): Iterable<readonly ServiceRow[]> {
  const source = store.source(ADDRESS_TYPE)
  if (source === undefined) return
  const nameWaypoint = createWaypointNamer(source)
  yield* pages(selectServices(source, request.node), servicePageSize, (resource) => {
    const decoded = decodeResource(resource)
    if (decoded?.kind !== 'service' || !isIn(decoded.service.namespace, request)) return undefined
    const members = source.members(resource.name).flatMap((member) => decodeMember(member) ?? [])
    const row = toServiceRow(decoded.service, members, nameWaypoint)
    return request.whole ? { ...row, resource: toStruct(toAddressJson(decoded, { ip: 'text' })) } : row
  })
}

/** Policies in pages. */
export function* policyPages(store: ResourceStore, request: ListRequest): Iterable<readonly PolicyRow[]> {
  const resources = [...(store.source(AUTHORIZATION_TYPE)?.all() ?? [])]
  yield* pages(resources, pageSize, (resource) => {
    const policy = decodePolicy(resource)
    if (policy === undefined || !isIn(policy.namespace ?? '', request)) return undefined
    return request.whole ? { ...toPolicyRow(policy), resource: toStruct(policy) } : toPolicyRow(policy)
  })
}

function selectServices(source: ResourceSource, node: string): readonly Resource[] {
  if (node === '') return [...source.all()].filter((resource) => isServiceName(resource.name))
  const names = new Set(source.local(node).flatMap((resource) => resource.parents))
  return [...names].flatMap((name) => source.get(name) ?? [])
}

function isIn(namespace: string, request: ListRequest): boolean {
  return request.namespace === '' || request.namespace === namespace
}

function* pages<Row>(
  resources: readonly Resource[],
  size: number,
  toRow: (resource: Resource) => Row | undefined,
): Iterable<readonly Row[]> {
  for (let start = 0; start < resources.length; start += size) {
    const rows = resources.slice(start, start + size).flatMap((resource) => toRow(resource) ?? [])
    if (rows.length > 0) yield rows
  }
}
