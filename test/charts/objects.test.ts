// SPDX-License-Identifier: Apache-2.0
// The chart's objects on a real API server that asks about rights: it takes them without a word, and the account they make may do what it must and no more.

import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { join } from 'node:path'
import { kinds } from '../../src/kube/inputs.js'
import { resourceTypes } from '../../src/kube/resources.js'
import { ClusterRoom } from '../cluster/room.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import { create, createKubeconfig, selectByAccess, type Wish } from './access.js'
import { chart, namespace, readGolden, selectKind, valueSets } from './golden.js'

const started = await startApiServer({ crdsFolder: join(chart, 'crds'), authorization: 'RBAC' })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer

const account = { namespace, name: 'addressd' }

beforeAll(async () => {
  if ('unavailable' in started) return
  // The strictest of the standards for pods, enforced; what breaks it in a Deployment is said in a warning.
  const standard = {
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/warn': 'restricted',
  }
  const ours = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels: standard } }
  expect(await create(api, ours)).toMatchObject({ status: 201 })
  for (const object of readGolden('defaults')) {
    expect(await create(api, object)).toMatchObject({ status: 201, warning: undefined })
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
        expect(await create(api, fresh, '&dryRun=All')).toMatchObject({ status: 201, warning: undefined })
      }
    })

    testReal(`with the values "${set}" make pods that a restricted namespace takes`, async () => {
      const { metadata, spec } = selectKind(readGolden(set), 'Deployment').spec.template
      // The class is the cluster's to define.
      const { priorityClassName: _, ...rest } = spec
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: set, namespace }, spec: rest }
      expect(await create(api, pod, '&dryRun=All')).toMatchObject({ status: 201, warning: undefined })
    })
  }
})

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
    expect(await selectByAccess(api, account, allowed, false)).toEqual([])
  })

  testReal('may do none of what the program never does', async () => {
    expect(await selectByAccess(api, account, refused, true)).toEqual([])
  })

  testReal('is enough for the program to read everything and become ready, denied nothing', async () => {
    const kubeconfigPath = await createKubeconfig(api, account)
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
