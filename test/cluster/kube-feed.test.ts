// SPDX-License-Identifier: Apache-2.0
// The feed against a real API server: both encodings agree on what it really sends, definitions come, history goes, silence is noticed.

import { afterAll, beforeAll, expect } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { createKubeApi } from '../../src/kube/client.js'
import { kinds } from '../../src/kube/inputs.js'
import { createKubeFeed, type KubeFeed } from '../../src/kube/kube-feed.js'
import { projectObject } from '../../src/kube/project.js'
import type { Kind } from '../../src/kube/records.js'
import { formatResourcePath, resourceTypes } from '../../src/kube/resources.js'
import { RowTable } from '../kube/support-reflect.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'

const started = await startApiServer()
const missing = 'unavailable' in started ? started.unavailable : undefined
const testReal = testWith('api-server', missing)
const server = started as ApiServer
const tables = Object.fromEntries(kinds.map((kind) => [kind, new RowTable<any>(kind)])) as Record<Kind, RowTable<any>>
const controller = new AbortController()
const registry = new Registry()
let feed: KubeFeed
let ended: Promise<void> = Promise.resolve()

const builtIn: Kind[] = ['Namespace', 'Node', 'ConfigMap', 'Service', 'Pod', 'EndpointSlice']

async function create(kind: Kind, object: any): Promise<void> {
  const type = resourceTypes[kind]
  const { namespace } = object.metadata
  const apiVersion = type.group === '' ? 'v1' : `${type.group}/v1`
  const answer = await server.request('POST', formatResourcePath(type, 'v1', { namespace }), {
    apiVersion,
    kind,
    ...object,
  })
  if (answer.status !== 201) throw new Error(`${kind}: ${answer.status} ${answer.body.toString()}`)
}

async function eventually(condition: () => boolean): Promise<void> {
  const end = Date.now() + 40_000
  while (!condition()) {
    if (Date.now() > end) throw new Error('waited in vain')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const pod = (name: string): any => ({
  metadata: {
    name,
    namespace: 'default',
    labels: { app: name },
    annotations: { 'ambient.istio.io/redirection': 'enabled' },
  },
  spec: {
    serviceAccountName: 'default',
    automountServiceAccountToken: false,
    containers: [{ name: 'c', image: 'i', ports: [{ name: 'http', containerPort: 80 }] }],
    initContainers: [{ name: 's', image: 'i', restartPolicy: 'Always', ports: [{ name: 'side', containerPort: 81 }] }],
  },
})

beforeAll(async () => {
  if (missing !== undefined) return
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: 'default' } }
  await server.request('POST', '/api/v1/namespaces/default/serviceaccounts', account)
  await create('Namespace', { metadata: { name: 'istio-system', labels: { a: 'b' } } })
  await create('Node', { metadata: { name: 'n', labels: { 'topology.kubernetes.io/zone': 'z' } } })
  await create('ConfigMap', {
    metadata: { name: 'istio', namespace: 'istio-system' },
    data: { mesh: 'trustDomain: x' },
  })
  await create('Service', {
    metadata: { name: 's', namespace: 'default' },
    spec: {
      selector: { app: 'a' },
      ports: [
        { name: 'http', port: 80, targetPort: 'http' },
        { name: 'n', port: 81 },
      ],
    },
  })
  await create('EndpointSlice', {
    metadata: { name: 'e', namespace: 'default', labels: { 'kubernetes.io/service-name': 's' } },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: false } }, { addresses: ['10.0.0.2'] }],
    ports: [{ name: 'http', port: 80 }, { port: 81 }],
  })
  await create('Pod', pod('a'))
  const api = await createKubeApi({ kubeconfig: server.kubeconfigPath, clock: systemClock })
  feed = createKubeFeed({
    api,
    inputs: tables,
    cluster: 'c',
    systemNamespace: 'istio-system',
    revision: '',
    clock: systemClock,
    log: silentLogger,
    registry,
  })
  ended = feed.run(controller.signal)
  await feed.synced
}, apiServerStartTimeoutMs)

afterAll(async () => {
  controller.abort()
  await ended
  if (missing === undefined) await server.stop()
})

testReal('what was read as protobuf equals what JSON shows, for each built-in kind', async () => {
  for (const kind of builtIn) {
    const namespace = kind === 'ConfigMap' ? 'istio-system' : undefined
    const path = formatResourcePath(resourceTypes[kind], 'v1', namespace === undefined ? {} : { namespace })
    const { items } = (await server.request('GET', path)).json() as { items: any[] }
    const wanted = items
      .map((o) => projectObject(kind, o, 'c'))
      .filter((p) => kind !== 'ConfigMap' || p.key.endsWith('/istio'))
    expect(wanted.length).toBeGreaterThan(0)
    expect(tables[kind].rows).toStrictEqual(new Map(wanted.map((p) => [p.key, p.record])))
  }
})

testReal('events come', async () => {
  await create('Pod', pod('b'))
  await eventually(() => tables.Pod.get('c/default/b') !== undefined)
  const patch = { status: { podIP: '10.0.0.9', podIPs: [{ ip: '10.0.0.9' }], phase: 'Running' } }
  const patched = await server.request('PATCH', '/api/v1/namespaces/default/pods/b/status', patch, {
    'content-type': 'application/merge-patch+json',
  })
  expect(patched.status).toBe(200)
  await eventually(() => tables.Pod.get('c/default/b').ips[0] === '10.0.0.9')
  await server.request('DELETE', '/api/v1/namespaces/default/pods/b?gracePeriodSeconds=0')
  await eventually(() => tables.Pod.get('c/default/b') === undefined)
})

testReal(
  'a server that comes back without its history is listed again, and nothing is lost',
  async () => {
    const before = tables.Pod.log.length
    await server.restart({ compact: true })
    await create('Pod', pod('d'))
    await eventually(() => tables.Pod.get('c/default/d') !== undefined)
    expect([...tables.Pod.rows.keys()].sort()).toStrictEqual(['c/default/a', 'c/default/d'])
    expect(tables.Pod.log.slice(before).filter((l) => l.startsWith('delete') || l === 'replace')).toStrictEqual([])
  },
  120_000,
)
