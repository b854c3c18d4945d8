// SPDX-License-Identifier: Apache-2.0
// A domain without a server: objects go in as a person would write them, resources come out. For the tests of address and for recorded cases.

import { silentLogger } from '../../src/base/log.js'
import { createAddressStore, type AddressStore } from '../../src/address/store.js'
import { defaultAddressOptions, type AddressOptions } from '../../src/address/options.js'
import { createGraph } from '../../src/collection/graph.js'
import type { Graph } from '../../src/collection/types.js'
import { createInputs, type Inputs } from '../../src/kube/inputs.js'
import { projectObject } from '../../src/kube/project.js'
import { clusterKey, objectKey, type Kind } from '../../src/kube/records.js'
import { parseKind, resourceTypes } from '../../src/kube/resources.js'
import { decodeAddress } from '../../src/wire/address-decoder.js'
import { decodeEntry } from '../../src/wire/entry.js'
import { toAuthorizationJson, type AuthorizationJson } from '../../src/wire/authorization-json.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, type ServiceMessage, type WorkloadMessage } from '../../src/wire/messages.js'
import type { Resource, ResourceChange, ResourceSource } from '../../src/xds/source.js'

/** What every Kubernetes object has; the rest is read by the projections. */
export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [field: string]: unknown }
  readonly [field: string]: unknown
}

export interface ObjectName {
  readonly apiVersion: string
  readonly kind: string
  readonly namespace?: string
  readonly name: string
}

/** Changes of one commit, sorted by name. */
export interface Pushed {
  readonly changed: readonly string[]
  readonly removed: readonly string[]
}

export class Room {
  readonly graph: Graph
  readonly inputs: Inputs
  readonly options: AddressOptions
  readonly address: AddressStore
  readonly source: ResourceSource
  readonly policies: ResourceSource
  readonly failures: { readonly collection: string; readonly key: string; readonly error: unknown }[] = []
  #changes: ReadonlyMap<string, readonly ResourceChange[]> = new Map()

  constructor(options: Partial<AddressOptions> = {}) {
    this.options = { ...defaultAddressOptions, ...options }
    this.graph = createGraph({ onFailure: (failure) => this.failures.push(failure) })
    this.inputs = createInputs(this.graph)
    this.address = createAddressStore({
      graph: this.graph,
      inputs: this.inputs,
      options: this.options,
      log: silentLogger,
    })
    this.source = this.address.store.source(ADDRESS_TYPE)!
    this.policies = this.address.store.source(AUTHORIZATION_TYPE)!
    this.address.store.onCommit((changes) => {
      this.#changes = changes
    })
  }

  /** Sets objects; kinds that nobody watches are passed over. */
  set(objects: readonly KubeObject[]): void {
    for (const object of objects) {
      const kind = parseKind(object.apiVersion, object.kind)
      if (kind !== undefined) this.#set(kind, object)
    }
  }

  delete(names: readonly ObjectName[]): void {
    for (const { apiVersion, kind, namespace = '', name } of names) {
      const known = parseKind(apiVersion, kind)
      if (known === undefined) continue
      const { clusterId } = this.options
      this.inputs[known].delete(
        resourceTypes[known].namespaced ? objectKey(clusterId, namespace, name) : clusterKey(clusterId, name),
      )
    }
  }

  /** Gives the changes of addresses. */
  commit(): Pushed {
    this.#changes = new Map()
    this.graph.commit()
    return this.pushed(ADDRESS_TYPE)
  }

  /** What the last commit changed of a type. */
  pushed(typeUrl: string): Pushed {
    const changes = this.#changes.get(typeUrl) ?? []
    return {
      changed: changes
        .filter((change) => change.after !== undefined)
        .map((change) => change.name)
        .sort(),
      removed: changes
        .filter((change) => change.after === undefined)
        .map((change) => change.name)
        .sort(),
    }
  }

  /** A policy as proxies are told it. */
  policy(name: string): AuthorizationJson | undefined {
    const found = this.policies.get(name)
    return found && toAuthorizationJson(bodyOf(found), { ip: 'text' })
  }

  /** Sets and commits. */
  apply(...objects: readonly KubeObject[]): Pushed {
    this.set(objects)
    return this.commit()
  }

  names(): readonly string[] {
    return [...this.source.all()].map((resource) => resource.name).sort()
  }

  lookup(key: string): readonly string[] {
    return this.source.lookup(key).map((resource) => resource.name)
  }

  workload(name: string): WorkloadMessage | undefined {
    const found = this.source.get(name)
    const address = found && decode(found)
    return address?.kind === 'workload' ? address.workload : undefined
  }

  service(name: string): ServiceMessage | undefined {
    const found = this.source.get(name)
    const address = found && decode(found)
    return address?.kind === 'service' ? address.service : undefined
  }

  #set(kind: Kind, object: KubeObject): void {
    const { key, record } = projectObject(kind, object, this.options.clusterId)
    this.inputs[kind].set(key, record as any)
  }
}

export function decode(resource: Resource): ReturnType<typeof decodeAddress> {
  return decodeAddress(bodyOf(resource))
}

/** The bytes of the Address. */
export function bodyOf(resource: Resource): Uint8Array {
  if (resource.entry === undefined) throw new Error(`${resource.name} has no bytes`)
  return decodeEntry(resource.entry).body
}
