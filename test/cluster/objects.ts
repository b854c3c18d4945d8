// SPDX-License-Identifier: Apache-2.0
// Creates, patches and deletes objects in a test API server as their owners would: what a controller reports goes through the status subresource.

import type { Kind } from '../../src/kube/records.js'
import { formatResourcePath, resourceTypes } from '../../src/kube/resources.js'
import type { ApiAnswer, ApiRequest } from '../support/apiserver-client.js'

export interface ObjectRef {
  readonly kind: Kind
  readonly namespace?: string
  readonly name: string
}

type Json = Readonly<Record<string, unknown>>

export interface Manifest extends Json {
  readonly kind: Kind
  readonly apiVersion?: string
  readonly metadata: Omit<ObjectRef, 'kind'> & Json
}

const merge = { 'content-type': 'application/merge-patch+json' }

export class ClusterObjects {
  readonly #request: ApiRequest

  constructor(request: ApiRequest) {
    this.#request = request
  }

  /** Creates it, then writes its status when it has one; gives the resourceVersion. The apiVersion is v1 of its group when left out. */
  async create(manifest: Manifest): Promise<string> {
    const { status, ...rest } = manifest
    const group = resourceTypes[manifest.kind].group
    const object = { apiVersion: group === '' ? 'v1' : `${group}/v1`, ...rest }
    const ref = { kind: manifest.kind, ...manifest.metadata }
    const version = toVersion(ref, await this.#request('POST', toPath(ref, true), object), 201)
    return status === undefined ? version : await this.patchStatus(ref, status)
  }

  /** JSON merge patch; gives the resourceVersion. */
  async patch(ref: ObjectRef, change: Json): Promise<string> {
    return toVersion(ref, await this.#request('PATCH', toPath(ref), change, merge), 200)
  }

  /** JSON merge patch of the status. */
  async patchStatus(ref: ObjectRef, status: unknown): Promise<string> {
    return toVersion(ref, await this.#request('PATCH', `${toPath(ref)}/status`, { status }, merge), 200)
  }

  /** Deletes it at once. There is no controller that would empty a namespace: one is only let go. */
  async remove(ref: ObjectRef): Promise<void> {
    const path = toPath(ref)
    checkStatus(ref, await this.#request('DELETE', `${path}?gracePeriodSeconds=0`), 200)
    if (ref.kind !== 'Namespace') return
    const namespace = (await this.#request('GET', path)).json()
    namespace.spec.finalizers = []
    checkStatus(ref, await this.#request('PUT', `${path}/finalize`, namespace), 200)
  }
}

function toPath({ kind, namespace, name }: ObjectRef, collection = false): string {
  const at = { ...(namespace === undefined ? {} : { namespace }), ...(collection ? {} : { name }) }
  return formatResourcePath(resourceTypes[kind], 'v1', at)
}

function checkStatus(ref: ObjectRef, answer: ApiAnswer, wanted: number): void {
  if (answer.status === wanted) return
  throw new Error(`${ref.kind} ${ref.namespace ?? ''}/${ref.name}: ${answer.status} ${answer.body.toString()}`)
}

function toVersion(ref: ObjectRef, answer: ApiAnswer, wanted: number): string {
  checkStatus(ref, answer, wanted)
  return answer.json().metadata.resourceVersion
}
