// SPDX-License-Identifier: Apache-2.0
// The Secret and the ConfigMaps of the certificate authority at the API server, as src/ca asks for them. For certificates.ts. Decides nothing; logs nothing.

import type { ConfigMapAccess, MapWriteOutcome, StoredMap } from '../ca/distribution.js'
import type { SecretAccess, StoredSecret } from '../ca/root-secret.js'
import type { Clock } from '../base/clock.js'
import { Retryable } from '../base/errors.js'
import { readBody, type KubeApi, type KubeRequest } from '../kube/api.js'
import { withDeadline } from '../kube/requests.js'

type Json = Readonly<Record<string, unknown>>

const requestTimeoutMs = 10_000
const longestAnswer = 16 * 1024 * 1024

interface Reply {
  readonly status: number
  readonly object: Json
}

type Send = (request: KubeRequest, signal: AbortSignal) => Promise<Reply>

function createSend(api: KubeApi, clock: Clock): Send {
  return (request, signal) =>
    withDeadline(clock, requestTimeoutMs, signal, async (within) => {
      const response = await api.send({ contentType: 'application/json', ...request }, within)
      const text = (await readBody(response, longestAnswer)).toString()
      return { status: response.status, object: parse(text) }
    })
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    // An error page of something in between: its status says enough.
    return {}
  }
}

function fail(what: string, { status, object }: Reply): Retryable {
  const message = typeof object['message'] === 'string' ? `: ${object['message']}` : ''
  const hint = status === 403 ? '; grant it by a Role, see charts/addressd' : ''
  return new Retryable(`${what}: the API server answered ${status}${message}${hint}`)
}

function versionOf(object: Json): string {
  const version = (object['metadata'] as Json | undefined)?.['resourceVersion']
  return typeof version === 'string' ? version : ''
}

/** Secret `name` of a namespace. */
export function createSecretAccess(
  api: KubeApi,
  place: { readonly namespace: string; readonly name: string },
  clock: Clock,
): SecretAccess {
  const send = createSend(api, clock)
  const { namespace, name } = place
  const list = `/api/v1/namespaces/${namespace}/secrets`
  const what = (verb: string): string => `${verb} Secret ${namespace}/${name}`
  const toStored = (object: Json): StoredSecret => {
    const data = (object['data'] ?? {}) as Readonly<Record<string, string>>
    const values = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()])
    return { version: versionOf(object), values: Object.fromEntries(values) as Record<string, string> }
  }
  const encode = (values: Readonly<Record<string, string>>): Json =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))
  return {
    name: `${namespace}/${name}`,
    async read(signal) {
      const reply = await send({ path: `${list}/${name}` }, signal)
      if (reply.status === 404) return undefined
      if (reply.status !== 200) throw fail(what('read'), reply)
      return toStored(reply.object)
    },
    async create(type, values, signal) {
      const object = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, type, data: encode(values) }
      const reply = await send({ method: 'POST', path: list, body: JSON.stringify(object) }, signal)
      if (reply.status === 409) return undefined
      if (reply.status !== 201 && reply.status !== 200) throw fail(what('create'), reply)
      return toStored(reply.object)
    },
    async update(values, version, signal) {
      const body = JSON.stringify({ metadata: { resourceVersion: version }, data: encode(values) })
      const request = { method: 'PATCH', path: `${list}/${name}`, contentType: mergePatch, body } as const
      const reply = await send(request, signal)
      if (reply.status === 404 || reply.status === 409) return undefined
      if (reply.status !== 200) throw fail(what('update'), reply)
      return toStored(reply.object)
    },
  }
}

const mergePatch = 'application/merge-patch+json'

/** ConfigMaps of every namespace. */
export function createConfigMapAccess(api: KubeApi, clock: Clock): ConfigMapAccess {
  const send = createSend(api, clock)
  const list = (namespace: string): string => `/api/v1/namespaces/${namespace}/configmaps`
  return {
    async read(namespace, name, signal): Promise<StoredMap | undefined> {
      const reply = await send({ path: `${list(namespace)}/${name}` }, signal)
      if (reply.status === 404) return undefined
      if (reply.status !== 200) throw fail(`read ConfigMap ${namespace}/${name}`, reply)
      return { version: versionOf(reply.object), values: (reply.object['data'] ?? {}) as StoredMap['values'] }
    },
    async create({ namespace, name, values }, labels, signal) {
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace, labels }, data: values }
      const request = { method: 'POST', path: list(namespace), body: JSON.stringify(object) } as const
      return judge(await send(request, signal), `create ConfigMap ${namespace}/${name}`)
    },
    async update({ namespace, name, values }, version, signal) {
      const body = JSON.stringify({ metadata: { resourceVersion: version }, data: values })
      const request = { method: 'PATCH', path: `${list(namespace)}/${name}`, contentType: mergePatch, body } as const
      return judge(await send(request, signal), `update ConfigMap ${namespace}/${name}`)
    },
  }
}

function judge(reply: Reply, what: string): MapWriteOutcome {
  const { status, object } = reply
  if (status === 200 || status === 201) return 'written'
  if (status === 409) return 'again'
  if (status === 403) return 'skip'
  // A map that vanished is made anew; a namespace that vanished needs none.
  if (status === 404) return JSON.stringify(object['details'] ?? '').includes('"namespaces"') ? 'skip' : 'again'
  throw fail(what, reply)
}
