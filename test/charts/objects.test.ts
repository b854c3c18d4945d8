// SPDX-License-Identifier: Apache-2.0
// The chart's objects on a real API server that asks about rights: it takes them without a word, and the account they make may do what it must and no more.

import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { join } from 'node:path'
import { kinds } from '../../src/kube/inputs.js'
import { resourceTypes } from '../../src/kube/resources.js'
import { ClusterRoom, writeKubeconfig } from '../cluster/room.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import { chart, namespace, readGolden, selectKind, valueSets, type Manifest } from './golden.js'
import { toCollectionPath } from './paths.js'

const started = await startApiServer({ crdsFolder: join(chart, 'crds'), authorization: 'RBAC' })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer

async function create(object: Manifest, query = ''): Promise<{ status: number; warning: unknown; body: string }> {
  const path = `${toCollectionPath(object)}?fieldValidation=Strict${query}`
  const answer = await api.request('POST', path, object)
  return { status: answer.status, warning: answer.headers['warning'], body: answer.body.toString() }
}

beforeAll(async () => {
  if ('unavailable' in started) return
  // The strictest of the standards for pods, enforced; what breaks it in a Deployment is said in a warning.
  const standard = {
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/warn': 'restricted',
  }
  const ours = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels: standard } }
  expect(await create(ours)).toMatchObject({ status: 201 })
  for (const object of readGolden('defaults')) {
    expect(await create(object)).toMatchObject({ status: 201, warning: undefined })
  }
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if (!('unavailable' in started)) await api.stop()
}, apiServerStartTimeoutMs)

describe('the objects', () => {
  for (const set of valueSets) {
    testReal(`with the values "${set}" are taken without an unknown field and without a warning`, async () => {
      for (const object of readGolden(set)) {
        const fresh = { ...object, metadata: { ...object.metadata, name: `${object.metadata.name as string}-tried` } }
        expect(await create(fresh, '&dryRun=All')).toMatchObject({ status: 201, warning: undefined })
      }
    })

    testReal(`with the values "${set}" make pods that a restricted namespace takes`, async () => {
      const { metadata, spec } = selectKind(readGolden(set), 'Deployment').spec.template
      // The class is the cluster's to define.
      const { priorityClassName: _, ...rest } = spec
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: set, namespace }, spec: rest }
      expect(await create(pod, '&dryRun=All')).toMatchObject({ status: 201, warning: undefined })
    })
  }
})

interface Wish {
  readonly verb: string
  readonly group?: string
  readonly resource: string
  readonly subresource?: string
  readonly namespace?: string
  readonly name?: string
}

async function isAllowed(wish: Wish): Promise<boolean> {
  const answer = await api.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: {
      user: `system:serviceaccount:${namespace}:addressd`,
      groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
      resourceAttributes: wish,
    },
  })
  expect(answer.status).toBe(201)
  return answer.json().status.allowed
}

const networking = 'networking.istio.io'
const security = 'security.istio.io'
const rootMap = 'istio-ca-root-cert'

const allowed: readonly Wish[] = [
  ...kinds
    .filter((kind) => kind !== 'ConfigMap')
    .flatMap((kind) =>
      ['list', 'watch'].map((verb) => ({
        verb,
        group: resourceTypes[kind].group,
        resource: resourceTypes[kind].plural,
      })),
    ),
  { verb: 'list', resource: 'configmaps', namespace, name: 'istio' },
  { verb: 'watch', resource: 'configmaps', namespace, name: 'istio' },
  { verb: 'create', group: 'authentication.k8s.io', resource: 'tokenreviews' },
  { verb: 'create', resource: 'configmaps', namespace: 'shop' },
  ...['get', 'list', 'watch', 'update', 'patch'].flatMap((verb) => [
    { verb, resource: 'configmaps', namespace: 'shop', name: rootMap },
    { verb, resource: 'configmaps', namespace: 'shop', name: 'istio-ca-crl' },
    { verb, resource: 'secrets', namespace, name: 'istio-ca-secret' },
  ]),
  { verb: 'watch', resource: 'configmaps', name: rootMap },
  { verb: 'create', resource: 'secrets', namespace },
  ...['create', 'get', 'update'].map((verb) => ({
    verb,
    group: 'coordination.k8s.io',
    resource: 'leases',
    namespace,
  })),
  { verb: 'get', resource: 'services', namespace: 'shop' },
  { verb: 'get', group: networking, resource: 'serviceentries', namespace: 'shop' },
  { verb: 'get', group: networking, resource: 'workloadentries', namespace: 'shop' },
  { verb: 'get', group: security, resource: 'authorizationpolicies', namespace: 'shop' },
  { verb: 'patch', resource: 'services', subresource: 'status', namespace: 'shop' },
  { verb: 'patch', group: networking, resource: 'serviceentries', subresource: 'status', namespace: 'shop' },
  { verb: 'patch', group: networking, resource: 'workloadentries', subresource: 'status', namespace: 'shop' },
  { verb: 'patch', group: security, resource: 'authorizationpolicies', subresource: 'status', namespace: 'shop' },
]

const refused: readonly Wish[] = [
  { verb: 'list', resource: 'secrets' },
  { verb: 'list', resource: 'secrets', namespace },
  { verb: 'get', resource: 'secrets', namespace, name: 'other' },
  { verb: 'get', resource: 'secrets', namespace: 'shop', name: 'istio-ca-secret' },
  { verb: 'create', resource: 'secrets', namespace: 'shop' },
  { verb: 'delete', resource: 'secrets', namespace, name: 'istio-ca-secret' },
  { verb: 'list', resource: 'configmaps' },
  { verb: 'get', resource: 'configmaps', namespace: 'shop', name: 'settings' },
  { verb: 'update', resource: 'configmaps', namespace, name: 'istio' },
  { verb: 'delete', resource: 'configmaps', namespace: 'shop', name: rootMap },
  { verb: 'create', resource: 'pods', namespace: 'shop' },
  { verb: 'create', resource: 'pods', subresource: 'exec', namespace: 'shop' },
  { verb: 'patch', resource: 'pods', namespace: 'shop' },
  { verb: 'patch', resource: 'pods', subresource: 'status', namespace: 'shop' },
  { verb: 'get', resource: 'nodes' },
  { verb: 'patch', resource: 'nodes' },
  { verb: 'get', resource: 'pods', namespace: 'shop' },
  { verb: 'patch', resource: 'services', namespace: 'shop' },
  { verb: 'update', group: networking, resource: 'serviceentries', namespace: 'shop' },
  { verb: 'patch', group: security, resource: 'authorizationpolicies', namespace: 'shop' },
  { verb: 'patch', group: security, resource: 'peerauthentications', subresource: 'status', namespace: 'shop' },
  { verb: 'create', resource: 'serviceaccounts', subresource: 'token', namespace: 'shop' },
  { verb: 'impersonate', resource: 'users' },
  { verb: 'get', group: 'coordination.k8s.io', resource: 'leases', namespace: 'kube-system' },
  { verb: 'delete', group: 'coordination.k8s.io', resource: 'leases', namespace },
  { verb: 'update', group: 'rbac.authorization.k8s.io', resource: 'clusterroles' },
]

describe('the account', () => {
  testReal('may do each thing that the program does', async () => {
    const answers = await Promise.all(allowed.map(async (wish) => ({ ...wish, allowed: await isAllowed(wish) })))
    expect(answers.filter((answer) => !answer.allowed)).toEqual([])
  })

  testReal('may do none of what the program never does', async () => {
    const answers = await Promise.all(refused.map(async (wish) => ({ ...wish, allowed: await isAllowed(wish) })))
    expect(answers.filter((answer) => answer.allowed)).toEqual([])
  })

  testReal('is enough for the program to read everything and become ready, denied nothing', async () => {
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts/addressd/token`
    const { status } = (await api.request('POST', accounts, { spec: { expirationSeconds: 3600 } })).json()
    const kubeconfigPath = join(api.folder, 'kubeconfig-of-chart')
    writeKubeconfig(api.kubeconfigPath, kubeconfigPath, (config) => (config.users[0].user = { token: status.token }))
    const room = await ClusterRoom.open(api, undefined, { kubeconfigPath })
    try {
      await room.server.started
      expect(room.server.ready()).toBe(true)
      expect(room.log.records.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([])
    } finally {
      await room.close()
    }
  })
})
