// SPDX-License-Identifier: Apache-2.0
// What the node agent reads of a real API server and writes to it, with the rights of its chart: its node's pods and what says which are in the mesh, and
// one annotation.

import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { Retryable } from '../../src/base/errors.js'
import type { KubeApi } from '../../src/kube/api.js'
import { kinds } from '../../src/kube/inputs.js'
import { createKubeFeed, type KubeFeed } from '../../src/kube/kube-feed.js'
import type { Kind } from '../../src/kube/records.js'
import { redirectionAnnotation, type PodAnnotator, type PodIdentity } from '../../src/node-agent/contracts.js'
import { createPodAnnotator } from '../../src/node-agent/pod-annotation.js'
import { createLog, RowTable, type LogRecord } from '../kube/support-reflect.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import { installNodeAccount, nodeName, nodePod, openAsNode } from './node-account.js'
import { ClusterObjects } from './objects.js'

const started = await startApiServer({ authorization: 'RBAC' })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const server = started as ApiServer
const objects = new ClusterObjects(server.request)
const logs: LogRecord[] = []
const ofNode = ['Namespace', 'Pod', 'ConfigMap'] as const
const tables = Object.fromEntries(kinds.map((kind) => [kind, new RowTable<any>(kind)])) as Record<Kind, RowTable<any>>
const controller = new AbortController()
let api: KubeApi
let feed: KubeFeed
let annotator: PodAnnotator
let ended: Promise<void> = Promise.resolve()

const at = (name: string): { kind: 'Pod'; namespace: string; name: string } => ({
  kind: 'Pod',
  namespace: 'shop',
  name,
})
const pods = (): string[] => [...tables.Pod.rows.values()].map(({ name, phase }) => `${name} ${phase}`).sort()

async function until(condition: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 40_000
  while (!condition()) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

async function read(name: string): Promise<any> {
  const answer = await server.request('GET', `/api/v1/namespaces/shop/pods/${name}`)
  return answer.status === 200 ? answer.json() : undefined
}

async function readIdentity(name: string): Promise<PodIdentity> {
  const { metadata, spec } = await read(name)
  return { uid: metadata.uid, namespace: 'shop', name, serviceAccount: spec.serviceAccountName }
}

const readMark = async (name: string): Promise<string | undefined> =>
  (await read(name)).metadata.annotations?.[redirectionAnnotation]

beforeAll(async () => {
  if ('unavailable' in started) return
  const kubeconfig = await installNodeAccount(server)
  await objects.create({ kind: 'Namespace', metadata: { name: 'shop' } })
  for (const name of ['istio', 'other']) {
    await objects.create({ kind: 'ConfigMap', metadata: { name, namespace: 'istio-system' }, data: { mesh: 'a: b' } })
  }
  await objects.create(nodePod('mine', ['10.1.0.1']))
  await objects.create(nodePod('far', ['10.2.0.1'], { node: 'node-2' }))
  await objects.create(nodePod('unbound', [], { node: '' }))
  await objects.create(nodePod('done', ['10.1.0.2'], { phase: 'Succeeded' }))
  await objects.create(nodePod('broken', ['10.1.0.3'], { phase: 'Failed' }))
  api = await openAsNode(kubeconfig, systemClock)
  annotator = createPodAnnotator(api, systemClock)
  feed = createKubeFeed({
    api,
    inputs: tables,
    cluster: 'c',
    systemNamespace: 'istio-system',
    revision: '',
    clock: systemClock,
    log: createLog(logs),
    registry: new Registry(),
    kinds: ofNode,
    node: nodeName,
  })
  ended = feed.run(controller.signal)
  await feed.synced
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if ('unavailable' in started) return
  controller.abort()
  await ended
  api.close()
  await server.stop()
})

describe('the rows', () => {
  testReal('are those of the node, finished pods too, and of the mesh configuration', () => {
    expect(pods()).toEqual(['broken Failed', 'done Succeeded', 'mine Running'])
    expect([...tables.ConfigMap.rows.keys()]).toEqual(['c/istio-system/istio'])
    expect(tables.Namespace.get('c/shop')).toMatchObject({ name: 'shop' })
    expect(kinds.filter((kind) => tables[kind].log.length > 0)).toEqual(
      kinds.filter((k) => ofNode.includes(k as 'Pod')),
    )
  })

  testReal('follow: a pod is bound, fails, is deleted; those of another node never show', async () => {
    tables.Pod.log.length = 0
    const binding = { metadata: { name: 'unbound' }, target: { kind: 'Node', name: nodeName } }
    const bound = await server.request('POST', '/api/v1/namespaces/shop/pods/unbound/binding', binding)
    expect(bound.status).toBe(201)
    await objects.patchStatus(at('far'), { phase: 'Failed' })
    await objects.patchStatus(at('mine'), { phase: 'Failed' })
    await objects.remove(at('done'))
    await objects.remove(at('far'))
    const mark = await objects.patchStatus(at('unbound'), { phase: 'Running' })
    await until(() => BigInt(feed.seen('Pod')) >= BigInt(mark), 'the last change')
    // A pod that is deleted may be shown with its end in sight before.
    expect(tables.Pod.log.filter((line) => line !== 'set c/shop/done')).toEqual([
      'set c/shop/unbound',
      'set c/shop/mine',
      'delete c/shop/done',
      'set c/shop/unbound',
    ])
    expect(pods()).toEqual(['broken Failed', 'mine Failed', 'unbound Running'])
  })

  testReal('come without a denial', () => {
    expect(logs.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([])
  })
})

describe('the annotation', () => {
  testReal('is written and taken away, beside all others', async () => {
    await objects.create(nodePod('marked', ['10.1.0.4'], { annotations: { note: 'mine' } }))
    const pod = await readIdentity('marked')
    expect(await annotator.annotate(pod, 'pending')).toBe('written')
    expect(await readMark('marked')).toBe('pending')
    expect(await annotator.annotate(pod, 'enabled')).toBe('written')
    expect((await read('marked')).metadata.annotations).toEqual({ note: 'mine', [redirectionAnnotation]: 'enabled' })
    await until(() => tables.Pod.get('c/shop/marked')?.annotations?.[redirectionAnnotation] === 'enabled', 'the event')
    expect(await annotator.annotate(pod, undefined)).toBe('written')
    expect(await annotator.annotate(pod, undefined)).toBe('written')
    expect((await read('marked')).metadata.annotations).toEqual({ note: 'mine' })
  })

  testReal('is written to a pod that is on its way out', async () => {
    await objects.create(nodePod('leaving', ['10.1.0.5']))
    const pod = await readIdentity('leaving')
    await server.request('DELETE', '/api/v1/namespaces/shop/pods/leaving')
    expect(await annotator.annotate(pod, 'enabled')).toBe('written')
    expect(await readMark('leaving')).toBe('enabled')
  })

  testReal('of a pod that is not there says that it is gone', async () => {
    const pod = { uid: 'a', namespace: 'shop', name: 'nobody', serviceAccount: 'nobody' }
    expect(await annotator.annotate(pod, 'enabled')).toBe('gone')
    expect(await annotator.annotate({ ...pod, namespace: 'nowhere' }, undefined)).toBe('gone')
  })

  testReal('is refused to another pod of the same name, which means that the first one is gone', async () => {
    await objects.create(nodePod('twin', ['10.1.0.6']))
    const first = await readIdentity('twin')
    await objects.remove(at('twin'))
    await objects.create(nodePod('twin', ['10.1.0.7']))
    expect(await annotator.annotate(first, 'enabled')).toBe('gone')
    expect(await readMark('twin')).toBeUndefined()
    const status = '/api/v1/namespaces/shop/pods/twin/status'
    const patch = { metadata: { uid: first.uid, annotations: { [redirectionAnnotation]: 'enabled' } } }
    const raw = await server.request('PATCH', status, patch, { 'content-type': 'application/merge-patch+json' })
    expect([raw.status, raw.json().details.causes[0].field]).toEqual([422, 'metadata.uid'])
  })

  testReal('that does not fit into a living pod does not make it gone', async () => {
    await objects.create(nodePod('full', ['10.1.0.8'], { annotations: { note: 'x'.repeat(256 * 1024 - 4) } }))
    const outcome = annotator.annotate(await readIdentity('full'), 'enabled')
    await expect(outcome).rejects.toBeInstanceOf(Retryable)
    await expect(outcome).rejects.toThrow(/pod shop\/full is not written: the API server answers 422: .*annotations/)
  })

  testReal('is worth another try where the right to write it is missing, and the server says which', async () => {
    const role = '/apis/rbac.authorization.k8s.io/v1/clusterroles/addressd-node-istio-system'
    const { rules } = (await server.request('GET', role)).json()
    const merge = { 'content-type': 'application/merge-patch+json' }
    const readsOnly = rules.filter(({ verbs }: { verbs: string[] }) => !verbs.includes('patch'))
    await server.request('PATCH', role, { rules: readsOnly }, merge)
    const pod = await readIdentity('marked')
    const tryOnce = (): Promise<unknown> => annotator.annotate(pod, 'enabled').catch((error: unknown) => error)
    let outcome = await tryOnce()
    // Roles count a moment after they are written.
    while (outcome === 'written') outcome = await tryOnce()
    expect(outcome).toBeInstanceOf(Retryable)
    expect(String(outcome)).toMatch(/answers 403: .*cannot patch resource \\?"pods\/status\\?"/)
    await server.request('PATCH', role, { rules }, merge)
    while ((await tryOnce()) !== 'written') await new Promise((resolve) => setTimeout(resolve, 20))
    expect(await readMark('marked')).toBe('enabled')
  })
})
