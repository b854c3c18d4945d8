// SPDX-License-Identifier: Apache-2.0
// A Kubernetes object as parsed JSON -> its frozen narrow row. For the reflectors and the file source. Judges types only: whether an IP or
// a label makes sense is the reader's affair. Keeps nothing of the object it was given.

import { InvalidInput } from '../base/errors.js'
import { Part, isJsonObject } from './part.js'
import { projectAuthorizationPolicy, projectPeerAuthentication } from './project-security.js'
import { projectConfigMap, projectNamespace, projectNode } from './project-cluster.js'
import { projectEndpointSlice, projectService } from './project-service.js'
import { projectGateway, projectGatewayClass } from './project-gateway.js'
import { projectPod } from './project-pod.js'
import { projectServiceEntry, projectWorkloadEntry } from './project-entry.js'
import { clusterKey, objectKey, type Kind, type RecordByKind } from './records.js'
import { resourceTypes } from './resources.js'

/** A row with the key it is filed under. */
export interface Projected<K extends Kind> {
  readonly key: string
  readonly record: RecordByKind[K]
}

type Projection<K extends Kind> = (object: Part, meta: Part, cluster: string) => RecordByKind[K]

const projections: { readonly [K in Kind]: Projection<K> } = {
  Pod: projectPod,
  Service: projectService,
  EndpointSlice: projectEndpointSlice,
  Node: projectNode,
  Namespace: projectNamespace,
  Gateway: projectGateway,
  GatewayClass: projectGatewayClass,
  WorkloadEntry: projectWorkloadEntry,
  ServiceEntry: projectServiceEntry,
  AuthorizationPolicy: projectAuthorizationPolicy,
  PeerAuthentication: projectPeerAuthentication,
  ConfigMap: projectConfigMap,
}

/** What `kind`, and the namespace and name found in the object as far as they are text, are called in errors and logs. */
export function formatSubject(kind: Kind, object: unknown): string {
  const meta = isJsonObject(object) && isJsonObject(object.metadata) ? object.metadata : {}
  const name = typeof meta.name === 'string' && meta.name !== '' ? meta.name : '(without name)'
  return resourceTypes[kind].namespaced
    ? `${kind} ${typeof meta.namespace === 'string' ? meta.namespace : ''}/${name}`
    : `${kind} ${name}`
}

/**
 * Projects one object of a kind. `cluster` is the id of the cluster it comes from.
 * Throws InvalidInput, naming kind, namespace, name and field, when it is no such object: a field of the wrong type, no name, no namespace.
 */
export function projectObject<K extends Kind>(kind: K, object: unknown, cluster: string): Projected<K> {
  const subject = formatSubject(kind, object)
  if (!isJsonObject(object)) throw new InvalidInput(`${subject}: it must be an object`)
  const top = new Part(object, '', subject)
  const meta = top.part('metadata')
  if (meta === undefined) throw top.refuse('metadata', 'an object')
  const name = meta.text('name')
  if (name === '') throw meta.refuse('name', 'a name', undefined)
  const project: Projection<K> = projections[kind]
  if (!resourceTypes[kind].namespaced) return { key: clusterKey(cluster, name), record: project(top, meta, cluster) }
  const namespace = meta.text('namespace')
  if (namespace === '') throw meta.refuse('namespace', 'a namespace', undefined)
  return { key: objectKey(cluster, namespace, name), record: project(top, meta, cluster) }
}
