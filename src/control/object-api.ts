// SPDX-License-Identifier: Apache-2.0
// Single objects of the API server, read and written one request at a time, each with a deadline. For everything in this folder. An answer that
// depends on what somebody else did in the meantime is an outcome; an answer that is nobody's fault but the server's is an error.

import type { Clock } from '../base/clock.js'
import { Retryable, formatError } from '../base/errors.js'
import { readBody, type KubeApi, type KubeRequest } from '../kube/api.js'
import { selectVersions } from '../kube/locate.js'
import type { Kind } from '../kube/records.js'
import { HttpFailure, withDeadline } from '../kube/requests.js'
import { formatResourcePath, resourceTypes } from '../kube/resources.js'

export type JsonObject = Readonly<Record<string, unknown>>

/** `conflict`: what the write took for granted does not hold (any more). */
export type ObjectReply =
  | { readonly kind: 'ok'; readonly object: JsonObject }
  | { readonly kind: 'missing' }
  | { readonly kind: 'conflict'; readonly why: string }

export interface JsonPatchStep {
  readonly op: 'test' | 'add' | 'replace'
  readonly path: string
  readonly value: unknown
}

/** Where an object is. */
export interface ObjectPlace {
  readonly kind: Kind
  /** Empty for objects of the whole cluster. */
  readonly namespace: string
  readonly name: string
}

/** A request that is not answered by then is given up. */
export const requestTimeoutMs = 10_000
const longestAnswerBytes = 16 * 1024 * 1024

export class ObjectApi {
  readonly #api: KubeApi
  readonly #clock: Clock
  /** The version that is served, by API group. Forgotten when an object is not found: its definition may have changed. */
  readonly #versions = new Map<string, string>()

  constructor(api: KubeApi, clock: Clock) {
    this.#api = api
    this.#clock = clock
  }

  /** `apiVersion` and path of an object. Rejects with Retryable when its group is not served. */
  async locate(
    place: ObjectPlace,
    signal: AbortSignal,
  ): Promise<{ readonly apiVersion: string; readonly path: string }> {
    const type = resourceTypes[place.kind]
    let version = this.#versions.get(type.group)
    if (version === undefined) {
      version = (await selectVersions(this.#api, type, this.#clock, signal))[0]
      if (version === undefined) throw new Retryable(`the API server does not serve ${type.group}`)
      this.#versions.set(type.group, version)
    }
    const { namespace, name } = place
    return {
      apiVersion: type.group === '' ? version : `${type.group}/${version}`,
      path: formatResourcePath(type, version, { namespace, name }),
    }
  }

  get(path: string, signal: AbortSignal): Promise<ObjectReply> {
    return this.#send({ path }, signal)
  }

  create(path: string, object: JsonObject, signal: AbortSignal): Promise<ObjectReply> {
    return this.#send({ method: 'POST', path, contentType: 'application/json', body: JSON.stringify(object) }, signal)
  }

  /** A conflict unless `metadata.resourceVersion` is the present one. */
  replace(path: string, object: JsonObject, signal: AbortSignal): Promise<ObjectReply> {
    return this.#send({ method: 'PUT', path, contentType: 'application/json', body: JSON.stringify(object) }, signal)
  }

  /** All steps or none. */
  patch(path: string, steps: readonly JsonPatchStep[], signal: AbortSignal): Promise<ObjectReply> {
    const contentType = 'application/json-patch+json'
    return this.#send({ method: 'PATCH', path, contentType, body: JSON.stringify(steps) }, signal)
  }

  /** Server-side apply: what `manager` applied before and leaves out now is taken away. Takes fields over from others. */
  apply(path: string, manager: string, object: JsonObject, signal: AbortSignal): Promise<ObjectReply> {
    const query = new URLSearchParams({ fieldManager: manager, force: 'true' })
    const contentType = 'application/apply-patch+yaml'
    const body = JSON.stringify(object) // JSON is YAML
    return this.#send({ method: 'PATCH', path: `${path}?${query.toString()}`, contentType, body }, signal)
  }

  /** Rejects with HttpFailure for any other status, and with Retryable when there is no answer. */
  #send(request: KubeRequest, signal: AbortSignal): Promise<ObjectReply> {
    return withDeadline(this.#clock, requestTimeoutMs, signal, async (inner) => {
      const response = await this.#api.send(request, inner)
      const text = (await readBody(response, longestAnswerBytes)).toString('utf8')
      const object = parseObject(text)
      const { status } = response
      if (status === 200 || status === 201) return { kind: 'ok', object }
      const why = typeof object['message'] === 'string' ? object['message'] : ''
      if (status === 404) {
        this.#versions.clear()
        return { kind: 'missing' }
      }
      if (status === 409 || status === 422) return { kind: 'conflict', why }
      const asked = `${request.method ?? 'GET'} ${request.path.replace(/\?.*/, '')}`
      throw new HttpFailure(
        `${asked}: the API server answers ${status} ${why}`.trimEnd(),
        status,
        response.retryAfterMs,
      )
    })
  }
}

/** Empty for what is no JSON object: proxies in between answer in HTML. */
function parseObject(text: string): JsonObject {
  try {
    return toObject(JSON.parse(text))
  } catch (error) {
    return { message: formatError(error) }
  }
}

/** The value when it is an object, else an empty one. */
export function toObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}
}

/** The value when it is a text, else an empty one. */
export function toText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** The value when it is a list, else an empty one. */
export function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
