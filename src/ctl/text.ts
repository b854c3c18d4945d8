// SPDX-License-Identifier: Apache-2.0
// Rows of addressd as text for people: cells of tables, and the answer to one question told in full.

import type {
  ClientRow,
  FindingRow,
  PolicyRow,
  PortPairRow,
  ServiceRow,
  WatchRow,
  WaypointRow,
  WhatIsAnswer,
  WorkloadRow,
} from '../wire/inspect.js'
import { formatAge, formatFields, formatTable, UNKNOWN } from './table.js'

/** NAMESPACE, NAME, ADDRESS, NODE, WAYPOINT, PROTOCOL; wide: and STATUS, OWNER, NETWORK, CLUSTER, UID. */
export function formatWorkloads(rows: readonly WorkloadRow[], isWide: boolean): string {
  const header = ['NAMESPACE', 'NAME', 'ADDRESS', 'NODE', 'WAYPOINT', 'PROTOCOL']
  const wide = ['STATUS', 'OWNER', 'NETWORK', 'CLUSTER', 'UID']
  return formatTable(
    isWide ? [...header, ...wide] : header,
    rows.map((row) => [
      row.namespace,
      row.name,
      formatAddresses(row),
      row.node,
      formatWaypoint(row.waypoint),
      row.protocol,
      ...(isWide ? [formatHealth(row), formatOwner(row), formatNetwork(row), row.cluster, row.uid] : []),
    ]),
  )
}

/** NAMESPACE, SERVICE NAME, SERVICE VIP, WAYPOINT, ENDPOINTS; wide: and HOSTNAME, PORTS. */
export function formatServices(rows: readonly ServiceRow[], isWide: boolean): string {
  const header = ['NAMESPACE', 'SERVICE NAME', 'SERVICE VIP', 'WAYPOINT', 'ENDPOINTS']
  return formatTable(
    isWide ? [...header, 'HOSTNAME', 'PORTS'] : header,
    rows.map((row) => [
      row.namespace,
      row.name,
      row.addresses.join(','),
      formatWaypoint(row.waypoint),
      `${row.healthyMembers}/${row.membersTotal}`,
      ...(isWide ? [row.hostname, row.ports.map(formatPort).join(',')] : []),
    ]),
  )
}

/** NAMESPACE, POLICY NAME, ACTION, SCOPE. */
export function formatPolicies(rows: readonly PolicyRow[]): string {
  return formatTable(
    ['NAMESPACE', 'POLICY NAME', 'ACTION', 'SCOPE'],
    rows.map((row) => [row.namespace, row.name, row.action, row.scope]),
  )
}

const shortTypes: Readonly<Record<string, string>> = {
  'type.googleapis.com/istio.workload.Address': 'WDS',
  'type.googleapis.com/istio.security.Authorization': 'WADS',
}

/** NAME, CLUSTER, NODE, a column a type that some client follows (WDS and WADS always), LAST ERROR; wide: and TYPE, VERSION, ADDRESS, CONNECTED, ID. */
export function formatClients(rows: readonly ClientRow[], isWide: boolean): string {
  const types = new Set(Object.keys(shortTypes))
  for (const row of rows) for (const watch of row.watches) types.add(watch.typeUrl)
  const columns = [...types].map((type) => shortTypes[type] ?? type.slice(type.lastIndexOf('/') + 1))
  const wide = ['TYPE', 'VERSION', 'ADDRESS', 'CONNECTED', 'ID']
  return formatTable(
    ['NAME', 'CLUSTER', 'NODE', ...columns, 'LAST ERROR', ...(isWide ? wide : [])],
    rows.map((row) => [
      row.name,
      row.cluster,
      row.node,
      ...[...types].map((type) => formatWatch(row.watches.find((watch) => watch.typeUrl === type))),
      row.watches.map((watch) => watch.lastError).find((error) => error !== '') ?? 'none',
      ...(isWide ? [row.type, row.version, row.address, formatAge(row.connectedMs), row.connectionId] : []),
    ]),
  )
}

function formatWatch(watch: WatchRow | undefined): string {
  if (watch === undefined) return 'IGNORED'
  return watch.state === 'NOT_SENT' ? 'NOT SENT' : `${watch.state} (${formatAge(watch.sentMsAgo)})`
}

/** Everything that was found, a block each. */
export function formatAnswer(answer: WhatIsAnswer, isWide: boolean): string {
  return answer.found.map((finding) => formatFinding(finding, isWide)).join('\n')
}

function formatFinding(finding: FindingRow, isWide: boolean): string {
  if (finding.workload) return formatWorkload(finding.workload, finding, isWide)
  if (finding.service) return formatService(finding.service, finding, isWide)
  if (finding.policy) return formatPolicy(finding.policy, finding, isWide)
  return ''
}

type Field = readonly [name: string, values: readonly string[]]

function formatWorkload(row: WorkloadRow, finding: FindingRow, isWide: boolean): string {
  const fields: Field[] = [
    ['Uid', [row.uid]],
    ['Address', row.hostNetwork ? row.addresses.map((ip) => `${ip} (shared with its node)`) : [formatAddresses(row)]],
    ['Node', [row.node]],
    ['Owner', [formatOwner(row)]],
    ['Account', [row.serviceAccount]],
    ['Protocol', [row.protocol]],
    ['Health', [formatHealth(row)]],
    ['Waypoint', [formatWaypointInFull(row.waypoint)]],
    ['Services', orNone(row.services.map((m) => joinParts([m.service, m.addresses, m.ports.map(formatPort)])))],
    ['Policies', orNone(row.policies)],
  ]
  if (isWide) fields.push(['Cluster', [row.cluster]], ['Network', [formatNetwork(row)]])
  return `Workload ${row.namespace}/${row.name}\n${formatFields([...fields, ...commonFields(finding, isWide)])}`
}

function formatService(row: ServiceRow, finding: FindingRow, isWide: boolean): string {
  const fields: Field[] = [
    ['Name', [`${row.namespace}/${row.name}`]],
    ['VIP', row.addresses.length === 0 ? ['none (headless)'] : row.addresses],
    ['Ports', orNone(row.ports.map(formatPort))],
    ['Waypoint', [formatWaypointInFull(row.waypoint)]],
    ['Endpoints', [`${row.healthyMembers} of ${row.membersTotal} healthy`]],
  ]
  const head = `Service ${row.hostname}\n${formatFields([...fields, ...commonFields(finding, isWide)])}`
  return row.members.length === 0 ? head : `${head}\n${formatMembers(row.members, isWide)}`
}

function formatMembers(members: readonly WorkloadRow[], isWide: boolean): string {
  const header = ['NAMESPACE', 'ENDPOINT', 'ADDRESS', 'NODE', 'PROTOCOL', 'HEALTH']
  return formatTable(
    isWide ? [...header, 'UID'] : header,
    members.map((row) => [
      row.namespace,
      row.name,
      formatAddresses(row),
      row.node,
      row.protocol,
      formatHealth(row),
      ...(isWide ? [row.uid] : []),
    ]),
  )
}

function formatPolicy(row: PolicyRow, finding: FindingRow, isWide: boolean): string {
  const fields: Field[] = [
    ['Action', [row.action]],
    ['Scope', [row.scope]],
  ]
  return `Policy ${row.namespace}/${row.name}\n${formatFields([...fields, ...commonFields(finding, isWide)])}`
}

function commonFields(finding: FindingRow, isWide: boolean): readonly Field[] {
  const wide: Field[] = [
    ['Keys', orNone(finding.aliases)],
    ['Version', [finding.version]],
  ]
  return [
    ['Found by', [finding.by]],
    ...(isWide ? wide : []),
    ...(finding.why.length > 0 ? ([['Why', finding.why]] as Field[]) : []),
  ]
}

function orNone(values: readonly string[]): readonly string[] {
  return values.length === 0 ? ['none'] : values
}

function joinParts(parts: readonly (string | readonly string[])[]): string {
  return parts
    .map((part) => (typeof part === 'string' ? part : part.join(',')))
    .filter((part) => part !== '')
    .join('  ')
}

function formatAddresses(row: WorkloadRow): string {
  return row.addresses.length > 0 ? row.addresses.join(',') : row.hostname
}

/** The port alone where the target is the service's own choice of a name, or is not given. */
function formatPort(port: PortPairRow): string {
  return port.targetPort === 0 ? String(port.port) : `${port.port}->${port.targetPort}`
}

function formatHealth(row: WorkloadRow): string {
  return row.healthy ? 'healthy' : 'unhealthy'
}

/** The network without a name is known, and is the usual one. */
function formatNetwork(row: WorkloadRow): string {
  return row.network === '' ? '(default)' : row.network
}

function formatOwner(row: WorkloadRow): string {
  return row.ownerName === '' ? '' : joinParts([row.ownerType, row.ownerName]).replace('  ', ' ')
}

/** Name of the service, `None`, or NA when no service is behind the key. */
function formatWaypoint(waypoint: WaypointRow | null): string {
  if (waypoint === null) return 'None'
  return waypoint.name === '' ? UNKNOWN : waypoint.name
}

function formatWaypointInFull(waypoint: WaypointRow | null): string {
  if (waypoint === null) return 'none'
  return `${waypoint.name === '' ? UNKNOWN : waypoint.name} (${waypoint.key})`
}
