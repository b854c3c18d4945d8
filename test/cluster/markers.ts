// SPDX-License-Identifier: Apache-2.0
// One object of each kind whose annotation is touched to mark a moment in the stream of that kind's events: who has read the mark has read all
// that came before. No published bytes depend on the annotation.

import type { Kind } from '../../src/kube/records.js'
import { resourceTypes } from '../../src/kube/resources.js'
import type { ApiRequest } from '../support/apiserver-client.js'
import { ClusterObjects, type ObjectRef } from './objects.js'

/** A manifest without its kind. */
interface Body extends Readonly<Record<string, unknown>> {
  readonly metadata: Omit<ObjectRef, 'kind'>
}

const at = { name: 'marker', namespace: 'marker' }
const port = { number: 80, name: 'http', protocol: 'HTTP' }

const manifests: { readonly [K in Kind]: Body } = {
  Namespace: { metadata: { name: 'marker' } },
  Node: { metadata: { name: 'marker' } },
  ConfigMap: { metadata: { name: 'istio', namespace: 'istio-system' }, data: { mesh: 'trustDomain: cluster.local' } },
  GatewayClass: { metadata: { name: 'marker' }, spec: { controllerName: 'marker.example/none' } },
  Gateway: {
    metadata: at,
    spec: { gatewayClassName: 'marker', listeners: [{ name: 'http', port: 80, protocol: 'HTTP' }] },
  },
  Service: { metadata: at, spec: { ports: [{ port: 80 }] } },
  ServiceEntry: { metadata: at, spec: { hosts: ['marker.example'], ports: [port], resolution: 'NONE' } },
  WorkloadEntry: { metadata: at, spec: { address: '192.0.2.250' } },
  AuthorizationPolicy: { metadata: at, spec: {} },
  PeerAuthentication: { metadata: at, spec: {} },
  EndpointSlice: { metadata: at, addressType: 'IPv4', endpoints: [], ports: [] },
  Pod: { metadata: at, spec: { containers: [{ name: 'none', image: 'registry.example/none:1' }] } },
}

export class Markers {
  readonly #objects: ClusterObjects
  readonly #kinds: readonly Kind[]
  #marks = 0

  private constructor(objects: ClusterObjects, kinds: readonly Kind[]) {
    this.#objects = objects
    this.#kinds = kinds
  }

  /** Creates the objects. `withCustom`: those of the kinds that definitions bring, too. */
  static async create(request: ApiRequest, withCustom: boolean): Promise<Markers> {
    const objects = new ClusterObjects(request)
    await objects.create({ kind: 'Namespace', metadata: { name: 'istio-system' } })
    const kinds = (Object.keys(manifests) as Kind[]).filter((kind) => withCustom || !resourceTypes[kind].custom)
    for (const kind of kinds) await objects.create({ ...manifests[kind], kind })
    return new Markers(objects, kinds)
  }

  /** Touches them all. Gives the resourceVersion of each mark. */
  async mark(): Promise<ReadonlyMap<Kind, bigint>> {
    this.#marks++
    const annotations = { 'test.example/mark': String(this.#marks) }
    const marked = this.#kinds.map(async (kind): Promise<[Kind, bigint]> => {
      const ref: ObjectRef = { kind, ...manifests[kind].metadata }
      return [kind, BigInt(await this.#objects.patch(ref, { metadata: { annotations } }))]
    })
    return new Map(await Promise.all(marked))
  }
}
