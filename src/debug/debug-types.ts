// SPDX-License-Identifier: Apache-2.0
// The debug pages over a discovery stream, as istioctl asks for them. Callers are judged by their identities, by default those of the
// system namespace are answered; a request never becomes a subscription.

import { ProtocolError } from '../base/errors.js'
import { encodeEntry } from '../wire/entry.js'
import { loadProtos } from '../wire/protos.js'
import { toStruct } from '../wire/struct.js'
import { toSyncState, type ClientView, type WatchView } from '../xds/client-view.js'
import type { DebugAnswer, DebugTypes } from '../xds/debug-types.js'
import { createNamespaceAccess, type TypeAccess } from './access.js'
import { createDebugPages, type PageOptions } from './pages.js'

export interface DebugTypesOptions extends PageOptions {
  /** Callers of this namespace may ask, unless `access` says otherwise. */
  readonly systemNamespace: string
  readonly access?: TypeAccess | undefined
  /** Name of this replica, in answers about clients. */
  readonly replica: string
  readonly build: BuildNames
}

/** What this program is, in the words of istioctl. */
export interface BuildNames {
  readonly version: string
  readonly revision: string
}

const INVALID_ARGUMENT = 3

const DEBUG = 'istio.io/debug'
const SYNCZ = 'istio.io/debug/syncz'
const CONFIG_DUMP = 'istio.io/debug/config_dump'
const CLIENT_CONFIG = 'type.googleapis.com/envoy.service.status.v3.ClientConfig'

/** For the discovery server. `istio.io/debug` takes one name `<command>?<query>`, `istio.io/debug/config_dump` one proxy; unknown debug types are answered empty. */
export function createDebugTypes(options: DebugTypesOptions): DebugTypes {
  const access = options.access ?? createNamespaceAccess(options.systemNamespace)
  const pages = new Map(createDebugPages(options).map((page) => [page.command, page]))
  const read = async (request: string): Promise<Uint8Array> => {
    const [command = '', query = ''] = request.split(/\?(.*)/s)
    const reply = pages.get(command)?.handle(new URLSearchParams(query))
    // As over HTTP, where it would be a page with this text too.
    if (reply === undefined) return Buffer.from(`there is no debug page "${command}"\n`)
    return await toBytes(reply.body)
  }
  return {
    async answer(typeUrl, names, identities) {
      access.admit(identities)
      if (typeUrl === SYNCZ) return toSyncz(options)
      if (typeUrl !== DEBUG && typeUrl !== CONFIG_DUMP) return { entries: [], controlPlane: '' }
      const [name, ...more] = names
      if (name === undefined || more.length > 0) {
        throw new ProtocolError('exactly one debug request is required', INVALID_ARGUMENT)
      }
      const request = typeUrl === DEBUG ? name : `config_dump?proxyID=${encodeURIComponent(name)}`
      const body = await read(request)
      return { entries: [encodeEntry({ name, version: '', typeUrl, body })], controlPlane: '' }
    },
  }
}

async function toBytes(body: string | Uint8Array | AsyncIterable<string>): Promise<Uint8Array> {
  if (typeof body === 'string') return Buffer.from(body)
  if (body instanceof Uint8Array) return body
  const parts: Buffer[] = []
  for await (const part of body) parts.push(Buffer.from(part))
  return Buffer.concat(parts)
}

function toSyncz(options: DebugTypesOptions): DebugAnswer {
  const { version, revision } = options.build
  return {
    entries: options
      .clients()
      .map((client) =>
        encodeEntry({ name: client.proxy, version: '', typeUrl: CLIENT_CONFIG, body: encodeClientConfig(client) }),
      ),
    controlPlane: JSON.stringify({ Component: 'addressd', ID: options.replica, Info: { version, revision } }),
  }
}

function encodeClientConfig(client: ClientView): Uint8Array {
  const metadata = { CLUSTER_ID: client.clusterId, NAMESPACE: client.namespace, ISTIO_VERSION: client.version }
  return loadProtos().messages.clientConfig.encode({
    node: { id: client.nodeId, metadata: toStruct(metadata) },
    generic_xds_configs: client.watches.map(toGenericConfig),
  })
}

type ClientConfig = Parameters<ReturnType<typeof loadProtos>['messages']['clientConfig']['encode']>[0]
type GenericConfig = NonNullable<ClientConfig['generic_xds_configs']>[number]

function toGenericConfig(watch: WatchView): GenericConfig {
  return {
    type_url: watch.typeUrl,
    config_status: toSyncState(watch),
    ...(watch.sentAtMs === 0 ? {} : { last_updated: toTimestamp(watch.sentAtMs) }),
    ...(watch.lastError === '' ? {} : { error_state: { details: watch.lastError } }),
  }
}

function toTimestamp(ms: number): { seconds: number; nanos: number } {
  return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 }
}
