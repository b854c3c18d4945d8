// SPDX-License-Identifier: Apache-2.0
// The debug pages by command, as functions of their query: what is served, who is connected, what each client holds and acknowledged. In the shapes that
// istiod's tools read. Served over HTTP by `routes` and over xDS by `debug-types`; pages change nothing.

import { toJsonReply, toTextReply, type AdminReply } from '../base/admin-http.js'
import { decodeAddress, decodeWorkload } from '../wire/address-decoder.js'
import { toAddressJson } from '../wire/address-json.js'
import { toAuthorizationJson } from '../wire/authorization-json.js'
import { decodeEntry } from '../wire/entry.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../wire/messages.js'
import type { ClientView, WatchView } from '../xds/client-view.js'
import type { Resource, ResourceStore } from '../xds/source.js'
import { isServiceName } from './directory.js'
import { formatArrays } from './json-parts.js'
import { decodeResource } from './rows.js'

export interface PageOptions {
  readonly store: ResourceStore
  readonly clients: () => readonly ClientView[]
  /** What the client of this connection has been told of and not lost since, by type; undefined when it is gone. */
  readonly held: (connectionId: string) => ReadonlyMap<string, readonly Resource[]> | undefined
  /** Labels of the pod that a client runs in, when they are known. */
  readonly labelsOf?: ((client: ClientView) => Readonly<Record<string, string>>) | undefined
}

export interface DebugPage {
  readonly command: string
  /** One sentence for the index. */
  readonly about: string
  readonly handle: (query: URLSearchParams) => AdminReply
}

/** Every page, by name. */
export function createDebugPages(options: PageOptions): readonly DebugPage[] {
  const page = (command: string, about: string, handle: DebugPage['handle']): DebugPage => ({ command, about, handle })
  const pages: DebugPage[] = [
    page('adsz', 'Connected clients with their metadata and what they watch.', (query) => toAdsz(options, query)),
    page('ambientz', 'Every workload, service and policy as it is served.', (query) =>
      toAmbientz(options.store, query),
    ),
    page('config_dump', 'What one client holds: proxyID=NAME, and types=wds,wads for less.', (query) =>
      toConfigDump(options, query),
    ),
    page('connections', 'Connected clients.', (query) => toConnections(options, query)),
    page('list', 'The names of these pages.', (query) => toJsonReply(listed(pages), query)),
    page('push_status', 'Problems of the last push.', (query) => toJsonReply({}, query)),
    page('syncz', 'What each client was sent, acknowledged or refused; namespace=NAME for less.', (query) =>
      toSyncz(options, query),
    ),
  ]
  return pages
}

function listed(pages: readonly DebugPage[]): readonly string[] {
  return pages.map((page) => page.command).filter((command) => command !== 'list')
}

function isPretty(query: URLSearchParams): boolean {
  return query.has('pretty') && query.get('pretty') !== 'false'
}

function toArraysReply(arrays: Parameters<typeof formatArrays>[0], query: URLSearchParams): AdminReply {
  return { status: 200, contentType: 'application/json', body: formatArrays(arrays, isPretty(query)) }
}

function toAmbientz(store: ResourceStore, query: URLSearchParams): AdminReply {
  const resources = [...(store.source(ADDRESS_TYPE)?.all() ?? [])]
  const policies = [...(store.source(AUTHORIZATION_TYPE)?.all() ?? [])]
  const isService = (resource: Resource): boolean => isServiceName(resource.name)
  const arrays = [
    { name: 'workloads', elements: eachJson(resources.filter((resource) => !isService(resource))) },
    { name: 'services', elements: eachJson(resources.filter(isService)) },
    { name: 'policies', elements: eachPolicy(policies) },
  ]
  return toArraysReply(arrays, query)
}

function* eachJson(resources: readonly Resource[]): Iterable<object> {
  for (const resource of resources) {
    const decoded = decodeResource(resource)
    if (decoded !== undefined) yield toAddressJson(decoded, { ip: 'base64OfText' })
  }
}

function* eachPolicy(resources: readonly Resource[]): Iterable<object> {
  for (const { entry } of resources) {
    if (entry !== undefined) yield toAuthorizationJson(decodeEntry(entry).body, { ip: 'bytes' })
  }
}

function byPlace(a: ClientView, b: ClientView): number {
  return (
    compare(a.clusterId, b.clusterId) || compare(a.namespace, b.namespace) || compare(a.connectionId, b.connectionId)
  )
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function toSyncz(options: PageOptions, query: URLSearchParams): AdminReply {
  const namespace = query.get('namespace') ?? ''
  const clients = options
    .clients()
    .filter((client) => namespace === '' || client.namespace === namespace)
    .sort(byPlace)
  return toJsonReply(
    clients.map((client) =>
      withoutEmpty({
        cluster_id: client.clusterId,
        proxy: client.proxy,
        proxy_type: client.proxyType,
        istio_version: client.version,
        resources: Object.fromEntries(client.watches.map((watch) => [watch.typeUrl, toWatchJson(watch)])),
      }),
    ),
    query,
  )
}

function toWatchJson(watch: WatchView): object {
  return withoutEmpty({
    sent: watch.sentNonce,
    acked: watch.ackedNonce,
    sentTime: watch.sentAtMs === 0 ? '' : new Date(watch.sentAtMs).toISOString(),
    lastError: watch.lastError,
  })
}

function withoutEmpty(json: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(json).filter(([, value]) => value !== ''))
}

const notConnected = 'Proxy not connected to this Pilot instance. It may be connected to another instance.'

function toAdsz(options: PageOptions, query: URLSearchParams): AdminReply {
  const proxy = query.get('proxyID') ?? ''
  const clients = options.clients().filter((client) => client.connectionId.includes(proxy))
  if (proxy !== '' && clients.length === 0) return toTextReply(notConnected, 404)
  return toJsonReply(
    { totalClients: clients.length, clients: clients.map((client) => toClientJson(client, options)) },
    query,
  )
}

function toClientJson(client: ClientView, options: PageOptions): object {
  const { NAME: _name, ...metadata } = client.metadata
  const wellKnown = { 'kubernetes.io/hostname': client.nodeName, 'topology.istio.io/cluster': client.clusterId }
  return {
    ...toConnectionJson(client),
    labels: withoutEmpty({ ...options.labelsOf?.(client), ...wellKnown }),
    metadata,
    locality: client.locality,
    watches: Object.fromEntries(client.watches.map((watch) => [watch.typeUrl, toWatchedNames(watch, options.store)])),
  }
}

/** Addresses may be many: of a wildcard they are not listed. Of other types a wildcard has every name there is. */
function toWatchedNames(watch: WatchView, store: ResourceStore): readonly string[] {
  if (!watch.wildcard || watch.typeUrl !== AUTHORIZATION_TYPE) return watch.names
  return [...(store.source(watch.typeUrl)?.all() ?? [])].map((resource) => resource.name)
}

function toConnections(options: PageOptions, query: URLSearchParams): AdminReply {
  const clients = options.clients().map(toConnectionJson)
  return toJsonReply({ totalClients: clients.length, clients }, query)
}

function toConnectionJson(client: ClientView): object {
  return {
    connectionId: client.connectionId,
    connectedAt: new Date(client.connectedAtMs).toISOString(),
    address: client.address,
  }
}

const shortTypes: Readonly<Record<string, readonly string[]>> = {
  wds: [ADDRESS_TYPE, WORKLOAD_TYPE],
  wads: [AUTHORIZATION_TYPE],
}

function toConfigDump(options: PageOptions, query: URLSearchParams): AdminReply {
  const proxy = query.get('proxyID') ?? ''
  if (proxy === '') return toTextReply('You must provide a proxyID in the query string', 400)
  const types = (query.get('types') ?? '').split(',').filter((type) => type !== '')
  const unknown = types.find((type) => !Object.hasOwn(shortTypes, type) && !type.includes('/'))
  if (unknown !== undefined) return toTextReply(`types: "${unknown}" is neither wds, wads nor a type URL`, 400)
  const client = options.clients().find((candidate) => candidate.connectionId.includes(proxy))
  if (client === undefined) return toTextReply(notConnected, 404)
  const wanted = new Set(types.flatMap((type) => shortTypes[type] ?? [type]))
  const held = [...(options.held(client.connectionId) ?? [])]
  const resources = held
    .filter(([typeUrl]) => types.length === 0 || wanted.has(typeUrl))
    .flatMap(([typeUrl, ofType]) => ofType.map((resource) => ({ typeUrl, resource })))
  if (resources.length === 0) return toJsonReply({}, query)
  return toArraysReply([{ name: 'configs', elements: eachConfig(resources) }], query)
}

function* eachConfig(held: readonly { readonly typeUrl: string; readonly resource: Resource }[]): Iterable<object> {
  for (const { typeUrl, resource } of held) {
    if (resource.entry === undefined) continue
    if (typeUrl === AUTHORIZATION_TYPE) {
      yield { '@type': typeUrl, ...toAuthorizationJson(decodeEntry(resource.entry).body, { ip: 'bytes' }) }
    } else yield toAddressConfig(typeUrl, resource.entry)
  }
}

function toAddressConfig(typeUrl: string, entry: Uint8Array): object {
  const { body } = decodeEntry(entry)
  if (typeUrl === WORKLOAD_TYPE) {
    return { '@type': typeUrl, ...toAddressJson({ kind: 'workload', workload: decodeWorkload(body) }, { ip: 'bytes' }) }
  }
  const decoded = decodeAddress(body)
  return { '@type': typeUrl, [decoded.kind]: toAddressJson(decoded, { ip: 'bytes' }) }
}
