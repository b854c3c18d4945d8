// SPDX-License-Identifier: Apache-2.0
// A program: an API server that holds a mesh in memory and does nothing but lists and watches, so that the server under test is what takes
// the time. `api-server.js PODS`; prints its URL as a line of JSON. POST /change?pods=N changes the `version` label of the next N pods and
// answers when their events are written; other kinds than the mesh's are empty or unknown.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createMesh, meshKinds, meshTypes, type Json, type Mesh, type MeshKind } from './mesh.js'
import { encodeEnvelope, encodeEvent, encodeList, encodeObject } from './protobuf.js'

const protobufType = 'application/vnd.kubernetes.protobuf'

interface Watch {
  readonly kind: MeshKind
  readonly protobuf: boolean
  readonly response: ServerResponse
}

class MeshServer {
  readonly #mesh: Mesh
  readonly #encoded = new Map<MeshKind, Buffer[]>()
  readonly #watches = new Set<Watch>()
  /** Labels of pods that were changed since the start. */
  readonly #changed = new Map<number, string>()
  #version = 1000
  #next = 0

  constructor(pods: number) {
    this.#mesh = createMesh(pods)
    for (const kind of meshKinds) {
      const encoded: Buffer[] = []
      for (let i = 0; i < this.#mesh.count(kind); i++) encoded.push(encodeObject(kind, this.#object(kind, i)))
      this.#encoded.set(kind, encoded)
    }
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://localhost')
    request.resume()
    if (request.method === 'POST' && url.pathname === '/change') {
      this.#change(Number(url.searchParams.get('pods') ?? 1))
      response.end('{}')
      return
    }
    const kind = meshKinds.find((one) => meshTypes[one].path === url.pathname)
    const protobuf = (request.headers.accept ?? '').includes(protobufType)
    if (kind === undefined) this.#answerOther(url, response)
    else if (url.searchParams.get('watch') === 'true') this.#open({ kind, protobuf, response })
    else this.#list(kind, protobuf, url, response)
  }

  /** A ConfigMap kind exists and has nothing; custom kinds are not defined. */
  #answerOther(url: URL, response: ServerResponse): void {
    const isEmpty = url.pathname.endsWith('/configmaps')
    if (isEmpty && url.searchParams.get('watch') === 'true') {
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
      return
    }
    response.writeHead(isEmpty ? 200 : 404, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify(
        isEmpty
          ? { kind: 'ConfigMapList', apiVersion: 'v1', metadata: { resourceVersion: String(this.#version) }, items: [] }
          : { kind: 'Status', status: 'Failure', reason: 'NotFound', message: 'not found', code: 404 },
      ),
    )
  }

  #object(kind: MeshKind, i: number): Json {
    const object = this.#mesh.make(kind, i)
    object.metadata.resourceVersion = String(1 + i)
    const version = kind === 'Pod' ? this.#changed.get(i) : undefined
    if (version !== undefined) {
      object.metadata.labels.version = version
      object.metadata.resourceVersion = version.slice(1)
    }
    return object
  }

  #list(kind: MeshKind, protobuf: boolean, url: URL, response: ServerResponse): void {
    const { apiVersion } = meshTypes[kind]
    const all = this.#encoded.get(kind) ?? []
    const from = Number(url.searchParams.get('continue') ?? 0)
    const limit = Number(url.searchParams.get('limit') ?? 0) || all.length
    const end = Math.min(all.length, from + limit)
    const next = end < all.length ? String(end) : ''
    const version = String(this.#version)
    if (protobuf) {
      response.writeHead(200, { 'content-type': protobufType })
      response.end(encodeList({ apiVersion, kind }, all.slice(from, end), { version, next }))
      return
    }
    const items: Json[] = []
    for (let i = from; i < end; i++) items.push(this.#object(kind, i))
    response.writeHead(200, { 'content-type': 'application/json' })
    const metadata = { resourceVersion: version, continue: next }
    response.end(JSON.stringify({ kind: `${kind}List`, apiVersion, metadata, items }))
  }

  #open(watch: Watch): void {
    const { response } = watch
    response.writeHead(200, { 'content-type': watch.protobuf ? `${protobufType};stream=watch` : 'application/json' })
    response.flushHeaders()
    this.#watches.add(watch)
    response.on('close', () => this.#watches.delete(watch))
  }

  #change(pods: number): void {
    for (let n = 0; n < pods; n++) {
      this.#version++
      const i = this.#next
      this.#next = (this.#next + 7919) % this.#mesh.pods
      this.#changed.set(i, `v${this.#version}`)
      const object = this.#object('Pod', i)
      const encoded = encodeObject('Pod', object)
      this.#encoded.get('Pod')?.splice(i, 1, encoded)
      const frame = encodeEvent('MODIFIED', encodeEnvelope('v1', 'Pod', encoded))
      const line = `${JSON.stringify({ type: 'MODIFIED', object })}\n`
      for (const watch of this.#watches) {
        if (watch.kind === 'Pod') watch.response.write(watch.protobuf ? frame : line)
      }
    }
  }
}

const mesh = new MeshServer(Number(process.argv[2]))
const server = createServer((request, response) => mesh.answer(request, response))
server.keepAliveTimeout = 0
server.requestTimeout = 0
server.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }))
})
