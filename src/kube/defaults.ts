// SPDX-License-Identifier: Apache-2.0
// What an API server adds to an object that leaves it out, for the file source. Adds only what some answer depends on; what is written stays
// as written, wrong types too: judging them is the projection's affair. Never changes the object it is given.

import { createHash } from 'node:crypto'
import { parseIp } from '../base/ip.js'
import { isJsonObject } from './part.js'
import type { Kind } from './records.js'
import { resourceTypes } from './resources.js'

type Json = Readonly<Record<string, unknown>>

/** An object with its defaults, and what could not be made up: one sentence each. */
export interface Completed {
  readonly object: Json
  readonly notices: readonly string[]
}

const isAbsent = (value: unknown): boolean => value === undefined || value === null
const isEmptyList = (value: unknown): boolean => isAbsent(value) || (Array.isArray(value) && value.length === 0)
const isEmptyText = (value: unknown): boolean => isAbsent(value) || value === ''

/** `object` with these fields set where it has none. */
function fill(object: Json, defaults: Json): Json {
  const out: Record<string, unknown> = { ...object }
  for (const [field, value] of Object.entries(defaults)) {
    if (isAbsent(out[field]) && value !== undefined) out[field] = value
  }
  return out
}

/** `object` with one field passed through `change`, when it is there and an object. */
function within(object: Json, field: string, change: (part: Json) => Json): Json {
  const part = object[field]
  return isJsonObject(part) ? { ...object, [field]: change(part) } : object
}

/** `object` with every object of one list passed through `change`. */
function withinEach(object: Json, field: string, change: (part: Json) => Json): Json {
  const list = object[field]
  if (!Array.isArray(list)) return object
  return { ...object, [field]: list.map((item: unknown) => (isJsonObject(item) ? change(item) : item)) }
}

/** A uid that is always the same for the same kind, namespace and name. */
export function formatInventedUid(kind: Kind, namespace: string, name: string): string {
  const hex = createHash('sha256').update(`${kind}/${namespace}/${name}`).digest('hex')
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16)
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}

function completeMetadata(kind: Kind, metadata: Json): Json {
  const { namespaced } = resourceTypes[kind]
  const placed = namespaced
    ? { ...metadata, namespace: isEmptyText(metadata.namespace) ? 'default' : metadata.namespace }
    : metadata
  const { namespace, name } = placed as { namespace?: unknown; name?: unknown }
  if (typeof name !== 'string') return placed
  const uid = isEmptyText(metadata.uid)
    ? formatInventedUid(kind, namespaced && typeof namespace === 'string' ? namespace : '', name)
    : metadata.uid
  const labelled =
    kind === 'Namespace'
      ? within(fill(placed, { labels: {} }), 'labels', (l) => fill(l, { 'kubernetes.io/metadata.name': name }))
      : placed
  return { ...labelled, uid }
}

function completePort(port: Json): Json {
  const unset = port.targetPort === 0 || port.targetPort === ''
  return fill(unset ? { ...port, targetPort: undefined } : port, { protocol: 'TCP', targetPort: port.port })
}

function toFamily(ip: unknown): string {
  return typeof ip === 'string' && parseIp(ip)?.length === 16 ? 'IPv6' : 'IPv4'
}

function completeService(service: Json): Json {
  return within(fill(service, { spec: {} }), 'spec', (written) => {
    const spec = withinEach(fill(written, { type: 'ClusterIP' }), 'ports', completePort)
    if (spec.type === 'ExternalName') return spec
    const listed = Array.isArray(spec.clusterIPs) ? (spec.clusterIPs as readonly unknown[]) : []
    const ips = listed.length > 0 ? listed : isEmptyText(spec.clusterIP) ? [] : [spec.clusterIP]
    const isHeadless = ips.length === 0 || ips.includes('None')
    return fill(spec, {
      clusterIPs: ips.length > 0 ? ips : undefined,
      ipFamilies: isHeadless ? undefined : ips.map(toFamily),
      internalTrafficPolicy: 'Cluster',
    })
  })
}

function completePod(pod: Json): Json {
  const ported = (container: Json): Json => withinEach(container, 'ports', (port) => fill(port, { protocol: 'TCP' }))
  return within(fill(pod, { spec: {} }), 'spec', (spec) => {
    const named = fill(isEmptyText(spec.serviceAccountName) ? { ...spec, serviceAccountName: undefined } : spec, {
      serviceAccountName: 'default',
    })
    return withinEach(withinEach(named, 'containers', ported), 'initContainers', ported)
  })
}

function completeSlice(slice: Json): Json {
  return withinEach(slice, 'ports', (port) => fill(port, { name: '', protocol: 'TCP' }))
}

function completeGateway(gateway: Json): Json {
  const listened = within(gateway, 'spec', (spec) =>
    withinEach(spec, 'listeners', (listener) =>
      within(fill(listener, { allowedRoutes: {} }), 'allowedRoutes', (routes) =>
        within(fill(routes, { namespaces: {} }), 'namespaces', (namespaces) => fill(namespaces, { from: 'Same' })),
      ),
    ),
  )
  return within(listened, 'status', (status) =>
    withinEach(status, 'addresses', (address) => fill(address, { type: 'IPAddress' })),
  )
}

const completions: { readonly [K in Kind]?: (object: Json) => Json } = {
  Service: completeService,
  Pod: completePod,
  EndpointSlice: completeSlice,
  Gateway: completeGateway,
}

function selectNotices(kind: Kind, object: Json): readonly string[] {
  const spec = isJsonObject(object.spec) ? object.spec : {}
  const status = isJsonObject(object.status) ? object.status : {}
  if (kind === 'Service' && spec.type !== 'ExternalName' && isEmptyList(spec.clusterIPs)) {
    return ['it has no spec.clusterIP, so it gets no address; write one, or None for a headless service']
  }
  const ended = status.phase === 'Succeeded' || status.phase === 'Failed'
  const addressed = !isEmptyText(status.podIP) || !isEmptyList(status.podIPs)
  if (kind === 'Pod' && !ended && !addressed) return ['it has no status.podIP, so it is not published']
  return []
}

/** Adds the defaults of a kind to an object of that kind. An object without metadata gets none there. */
export function completeObject(kind: Kind, object: Json): Completed {
  const named = within(object, 'metadata', (metadata) => completeMetadata(kind, metadata))
  const completed = completions[kind]?.(named) ?? named
  return { object: completed, notices: selectNotices(kind, completed) }
}
