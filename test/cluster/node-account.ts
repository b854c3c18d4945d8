// SPDX-License-Identifier: Apache-2.0
// A real API server as the node agent meets it: it asks about rights, and the agent has the account that its chart makes, with the rights of the chart and
// no others.

import { createKubeApi } from '../../src/kube/client.js'
import type { KubeApi } from '../../src/kube/api.js'
import type { Clock } from '../../src/base/clock.js'
import { create, createKubeconfig } from '../charts/access.js'
import { namespace } from '../charts/golden.js'
import { readNodeGolden } from '../charts/node-golden.js'
import type { ApiServer } from '../support/apiserver.js'
import { ClusterObjects, type Manifest } from './objects.js'

export const nodeName = 'node-1'

/** Makes the objects of the chart but the DaemonSet, whose pods no controller would make; gives the path of a kubeconfig of the account. */
export async function installNodeAccount(api: ApiServer): Promise<string> {
  const objects = new ClusterObjects(api.request)
  await objects.create({ kind: 'Namespace', metadata: { name: namespace } })
  for (const object of readNodeGolden('node-defaults').filter(({ kind }) => kind !== 'DaemonSet')) {
    const { status, body } = await create(api, object)
    if (status !== 201) throw new Error(`${object.kind as string}: ${status} ${body}`)
  }
  return await createKubeconfig(api, { namespace, name: 'addressd-node' })
}

/** The API as that account has it. */
export async function openAsNode(kubeconfig: string, clock: Clock): Promise<KubeApi> {
  return await createKubeApi({ kubeconfig, clock })
}

/** A pod of the node that runs, or one that waits for its sandbox when it has no address. */
export function nodePod(name: string, ips: readonly string[], more: PodParts = {}): Manifest {
  const { node = nodeName, labels = {}, annotations = {}, phase = ips.length === 0 ? 'Pending' : 'Running' } = more
  return {
    kind: 'Pod',
    metadata: { namespace: 'shop', name, labels: { app: name, ...labels }, annotations },
    spec: {
      ...(node === '' ? {} : { nodeName: node }),
      serviceAccountName: name,
      containers: [{ name: 'main', image: 'registry.example/main:1' }],
    },
    status: { phase, ...(ips[0] === undefined ? {} : { podIP: ips[0], podIPs: ips.map((ip) => ({ ip })) }) },
  }
}

interface PodParts {
  /** Empty: not bound yet. */
  readonly node?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly phase?: string
}
