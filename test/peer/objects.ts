// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects as short as can be, for the tests with a real ztunnel.

import type { KubeObject, ObjectName } from '../address/room.js'

export function namespace(name: string, labels: Readonly<Record<string, string>> = {}): KubeObject {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }
}

export interface PodFields {
  readonly node?: string
  readonly ip: string
  /** False: its traffic is not captured. */
  readonly captured?: boolean
  readonly ready?: boolean
  readonly labels?: Readonly<Record<string, string>>
  readonly uid?: string
}

/** A running pod `namespace/name` whose account and label `app` are its name. */
export function pod(path: string, fields: PodFields): KubeObject {
  const [ns = '', name = ''] = path.split('/')
  const { node = 'node1', ip, captured = true, ready = true, labels = {}, uid = `uid-of-${name}` } = fields
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: ns,
      uid,
      labels: { app: name, ...labels },
      annotations: captured ? { 'ambient.istio.io/redirection': 'enabled' } : {},
    },
    spec: { nodeName: node, serviceAccountName: name, containers: [] },
    status: {
      phase: 'Running',
      podIP: ip,
      podIPs: [{ ip }],
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    },
  }
}

/** A service `namespace/name` that selects the label `app` of its name and leads port 80 to 8080. */
export function service(path: string, clusterIP: string, spec: Readonly<Record<string, unknown>> = {}): KubeObject {
  const [ns = '', name = ''] = path.split('/')
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: ns },
    spec: {
      clusterIP,
      clusterIPs: [clusterIP],
      selector: { app: name },
      ports: [{ name: 'tcp', port: 80, targetPort: 8080 }],
      ...spec,
    },
  }
}

export function policy(path: string, spec: Readonly<Record<string, unknown>>): KubeObject {
  const [ns = '', name = ''] = path.split('/')
  return {
    apiVersion: 'security.istio.io/v1',
    kind: 'AuthorizationPolicy',
    metadata: { name, namespace: ns, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec,
  }
}

/** What deletes an object. */
export function nameOf({ apiVersion, kind, metadata }: KubeObject): ObjectName {
  const { namespace: ns, name } = metadata
  return { apiVersion, kind, name, ...(ns !== undefined && { namespace: ns }) }
}
