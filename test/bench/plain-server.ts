// SPDX-License-Identifier: Apache-2.0
// A program: the same answers made the plain way, as a yardstick. `plain-server.js URL [TOKEN CA_FILE]`. Lists and watches JSON, keeps the
// objects, derives every address again after each change, and lets grpc-js and proto-loader encode every response for every client.
// Nothing in it is made slow: it is what one writes first. Prints its port as a line of JSON once it serves.

import { readFileSync } from 'node:fs'
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import { createInterface } from 'node:readline'
import { isDeepStrictEqual } from 'node:util'
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { loadProtos } from '../../src/wire/protos.js'
import { meshKinds, meshTypes, type Json, type MeshKind } from './mesh.js'
import { deriveAddresses, type PlainAddress } from './plain-addresses.js'

const typeUrl = 'type.googleapis.com/istio.workload.Address'
const quietMs = 10

const [url = '', token = '', caFile] = process.argv.slice(2)
const objects = new Map<MeshKind, Map<string, Json>>(meshKinds.map((kind) => [kind, new Map<string, Json>()]))
const { services, messages } = loadProtos()
type Call = ServerDuplexStream<Json, Json>

const agentOptions = { keepAlive: true, ...(caFile === undefined ? {} : { ca: readFileSync(caFile) }) }
const agent = url.startsWith('https:') ? new https.Agent(agentOptions) : new http.Agent(agentOptions)

function get(path: string): Promise<IncomingMessage> {
  const headers = { accept: 'application/json', ...(token === '' ? {} : { authorization: `Bearer ${token}` }) }
  return new Promise((resolve, reject) => {
    const send = url.startsWith('https:') ? https.get : http.get
    send(new URL(path, url), { agent, headers }, resolve).on('error', reject)
  })
}

const keyOf = (object: Json): string => `${object.metadata.namespace ?? ''}/${object.metadata.name}`

/** Reads a kind page by page; resolves with where the watch goes on. */
async function list(kind: MeshKind): Promise<string> {
  let next = ''
  let version: string | undefined
  do {
    const message = await get(`${meshTypes[kind].path}?limit=500&continue=${encodeURIComponent(next)}`)
    const pieces: Buffer[] = []
    for await (const piece of message) pieces.push(piece as Buffer)
    const page = JSON.parse(Buffer.concat(pieces).toString())
    for (const item of page.items) objects.get(kind)?.set(keyOf(item), item)
    version ??= page.metadata.resourceVersion as string
    next = page.metadata.continue ?? ''
  } while (next !== '')
  return version
}

async function watch(kind: MeshKind, version: string): Promise<void> {
  const message = await get(`${meshTypes[kind].path}?watch=true&resourceVersion=${version}`)
  createInterface({ input: message }).on('line', (line) => {
    const { type, object } = JSON.parse(line)
    if (type === 'DELETED') objects.get(kind)?.delete(keyOf(object))
    else if (type === 'ADDED' || type === 'MODIFIED') objects.get(kind)?.set(keyOf(object), object)
    touch()
  })
}

interface Held {
  readonly address: PlainAddress
  readonly version: string
}

let held = new Map<string, Held>()
let byAlias = new Map<string, Held>()
let versions = 0
let nonces = 0
const wildcards = new Set<Call>()

/** Everything from the start; gives the names that changed. */
function rescan(): { changed: string[]; removed: string[] } {
  const fresh = new Map<string, Held>()
  const aliases = new Map<string, Held>()
  const changed: string[] = []
  for (const address of deriveAddresses((kind) => objects.get(kind) ?? new Map())) {
    const before = held.get(address.name)
    const same = before !== undefined && isDeepStrictEqual(before.address.message, address.message)
    const now = same ? before : { address, version: (++versions).toString(16) }
    fresh.set(address.name, now)
    for (const alias of address.aliases) aliases.set(alias, now)
    if (!same) changed.push(address.name)
  }
  const removed = [...held.keys()].filter((name) => !fresh.has(name))
  held = fresh
  byAlias = aliases
  return { changed, removed }
}

/** The response for one client, encoded for it alone. */
function toResponse(names: Iterable<string>, removed: readonly string[], withAliases = false): Json {
  const resources: Json[] = []
  for (const name of names) {
    const found = held.get(name)
    if (found === undefined) continue
    const value = messages.address.encode(found.address.message)
    const aliases = withAliases ? { aliases: found.address.aliases } : {}
    resources.push({ name, version: found.version, resource: { type_url: typeUrl, value }, ...aliases })
  }
  return { type_url: typeUrl, nonce: String(++nonces), resources, removed_resources: removed }
}

let timer: NodeJS.Timeout | undefined
function touch(): void {
  clearTimeout(timer)
  timer = setTimeout(() => {
    const { changed, removed } = rescan()
    if (changed.length + removed.length === 0) return
    for (const call of wildcards) call.write(toResponse(changed, removed))
  }, quietMs)
}

function serve(call: Call): void {
  let greeted = false
  call.on('error', () => undefined)
  call.on('close', () => wildcards.delete(call))
  call.on('cancelled', () => wildcards.delete(call))
  call.on('data', (request: Json) => {
    const subscribed: string[] = request.resource_names_subscribe ?? []
    const asked = subscribed.filter((name) => name !== '*')
    if (!greeted && subscribed.length === 0) {
      greeted = true
      wildcards.add(call)
      const known: Record<string, string> = request.initial_resource_versions ?? {}
      const names = [...held].filter(([name, { version }]) => known[name] !== version).map(([name]) => name)
      call.write(
        toResponse(
          names,
          Object.keys(known).filter((name) => !held.has(name)),
        ),
      )
      return
    }
    greeted = true
    if (asked.length === 0) return
    const found = asked.map((alias) => byAlias.get(alias)?.address.name ?? alias)
    call.write(toResponse(found, asked, true))
  })
}

const listed = await Promise.all(meshKinds.map(async (kind) => [kind, await list(kind)] as const))
rescan()
await Promise.all(listed.map(([kind, version]) => watch(kind, version)))
const server = new Server({ 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 })
server.addService(services.aggregatedDiscovery, { DeltaAggregatedResources: serve })
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error
  console.log(JSON.stringify({ port }))
})
