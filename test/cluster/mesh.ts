// SPDX-License-Identifier: Apache-2.0
// Small objects of a mesh for the stories of this folder.

import type { Manifest } from './objects.js'

/** A pod of the mesh on node-1, with the label app = its name. It has no address before it has a status. */
export function pod(namespace: string, name: string): Manifest {
  return {
    kind: 'Pod',
    metadata: {
      namespace,
      name,
      labels: { app: name },
      annotations: { 'ambient.istio.io/redirection': 'enabled' },
    },
    spec: {
      nodeName: 'node-1',
      serviceAccountName: name,
      containers: [{ name: 'main', image: 'registry.example/main:1' }],
    },
  }
}

/** The status of a pod that runs. */
export function addressed(ip: string, ready = true): object {
  const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }]
  return { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions }
}

export function service(namespace: string, name: string, selector: object, clusterIP: string): Manifest {
  const ports = [{ name: 'http', port: 80, targetPort: 8080 }]
  return { kind: 'Service', metadata: { namespace, name }, spec: { clusterIP, selector, ports } }
}

/** A waypoint of services with this address. */
export function gateway(namespace: string, name: string, address: string): Manifest {
  return {
    kind: 'Gateway',
    metadata: { namespace, name, labels: { 'istio.io/waypoint-for': 'service' } },
    spec: { gatewayClassName: 'istio-waypoint', listeners: [{ name: 'mesh', port: 15008, protocol: 'HBONE' }] },
    status: { addresses: [{ type: 'IPAddress', value: address }] },
  }
}

/** A name outside the cluster whose members have the label app = its name. */
export function serviceEntry(namespace: string, name: string, host: string, address: string): Manifest {
  return {
    kind: 'ServiceEntry',
    metadata: { namespace, name },
    spec: {
      hosts: [host],
      addresses: [address],
      ports: [{ name: 'https', number: 443, protocol: 'HTTPS' }],
      resolution: 'STATIC',
      workloadSelector: { labels: { app: name } },
    },
  }
}

export function workloadEntry(namespace: string, name: string, app: string, address: string): Manifest {
  return { kind: 'WorkloadEntry', metadata: { namespace, name, labels: { app } }, spec: { address } }
}
