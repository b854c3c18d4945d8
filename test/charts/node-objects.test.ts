// SPDX-License-Identifier: Apache-2.0
// The objects of the node agent's chart on a real API server that asks about rights: it takes them, each word it says about them is known, and the account
// they make may do what the agent must and no more.

import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import { create, selectByAccess, type Wish } from './access.js'
import { namespace, selectKind, type Manifest } from './golden.js'
import { nodeValueSets, readNodeGolden } from './node-golden.js'

const started = await startApiServer({ authorization: 'RBAC' })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const account = { namespace, name: 'addressd-node' }
const others = ['mesh', 'restrained'] as const

/** What every version of Kubernetes understands is not what the newest one likes best. */
const appArmor = 'container.apparmor.security.beta.kubernetes.io/agent'
const toAppArmorWarning = (path: string): string =>
  `299 - "${path}[${appArmor}]: deprecated since v1.30; use the \\"appArmorProfile\\" field instead"`

/** The one warning of each kind of object; none for those that are not named. */
function toWarning({ kind, spec }: Manifest): string | undefined {
  const isMarked = kind === 'DaemonSet' && spec.template.metadata.annotations[appArmor] !== undefined
  return isMarked ? toAppArmorWarning('spec.template.metadata.annotations') : undefined
}

beforeAll(async () => {
  if ('unavailable' in started) return
  const toNamespace = (name: string, level: string): Manifest => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': level } },
  })
  for (const name of [namespace, ...others]) {
    const made = await create(api, toNamespace(name, name === 'restrained' ? 'baseline' : 'privileged'))
    expect(made).toMatchObject({ status: 201 })
  }
  for (const object of readNodeGolden('node-defaults')) {
    expect(await create(api, object)).toMatchObject({ status: 201, warning: toWarning(object) })
  }
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if (!('unavailable' in started)) await api.stop()
}, apiServerStartTimeoutMs)

describe('the objects', () => {
  for (const set of nodeValueSets) {
    testReal(`with the values "${set}" are taken without an unknown field`, async () => {
      for (const object of readNodeGolden(set)) {
        const fresh = { ...object, metadata: { ...object.metadata, name: `${object.metadata.name as string}-tried` } }
        expect(await create(api, fresh, '&dryRun=All')).toMatchObject({ status: 201, warning: toWarning(object) })
      }
    })

    testReal(
      `with the values "${set}" make pods that a namespace for privileged ones takes, and no other`,
      async () => {
        const { metadata, spec } = selectKind(readNodeGolden(set), 'DaemonSet').spec.template
        const isMarked = metadata.annotations[appArmor] !== undefined
        const toPod = (within: string): Manifest => ({
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { ...metadata, name: set, namespace: within },
          spec,
        })
        expect(await create(api, toPod(namespace), '&dryRun=All')).toMatchObject({
          status: 201,
          warning: isMarked ? toAppArmorWarning('metadata.annotations') : undefined,
        })
        const refused = await create(api, toPod('restrained'), '&dryRun=All')
        expect(refused).toMatchObject({ status: 403, body: expect.stringContaining('violates PodSecurity') })
      },
    )
  }
})

const reads = ['get', 'list', 'watch']
const apps = 'apps'

const allowed: readonly Wish[] = [
  ...reads.flatMap((verb) => [
    { verb, resource: 'pods' },
    { verb, resource: 'namespaces' },
    { verb, resource: 'configmaps', namespace, name: 'istio' },
  ]),
  { verb: 'patch', resource: 'pods', subresource: 'status', namespace: 'shop' },
  { verb: 'get', resource: 'nodes' },
  { verb: 'get', group: apps, resource: 'daemonsets', namespace, name: 'addressd-node' },
]

const refused: readonly Wish[] = [
  ...['create', 'update', 'patch', 'delete', 'deletecollection'].map((verb) => ({ verb, resource: 'pods' })),
  ...['exec', 'ephemeralcontainers', 'binding', 'eviction'].map((subresource) => ({
    verb: 'create',
    resource: 'pods',
    subresource,
    namespace: 'shop',
  })),
  { verb: 'update', resource: 'pods', subresource: 'status', namespace: 'shop' },
  { verb: 'get', resource: 'pods', subresource: 'log', namespace: 'shop' },
  ...['create', 'update', 'patch', 'delete'].map((verb) => ({ verb, resource: 'namespaces' })),
  ...reads.map((verb) => ({ verb, resource: 'secrets', namespace })),
  ...reads.map((verb) => ({ verb, resource: 'configmaps', namespace })),
  { verb: 'list', resource: 'configmaps' },
  { verb: 'get', resource: 'configmaps', namespace: 'shop', name: 'istio' },
  { verb: 'update', resource: 'configmaps', namespace, name: 'istio' },
  ...['list', 'watch', 'update', 'patch', 'delete'].map((verb) => ({ verb, resource: 'nodes' })),
  { verb: 'patch', resource: 'nodes', subresource: 'status' },
  { verb: 'list', group: apps, resource: 'daemonsets', namespace },
  { verb: 'get', group: apps, resource: 'daemonsets', namespace, name: 'other' },
  { verb: 'patch', group: apps, resource: 'daemonsets', namespace, name: 'addressd-node' },
  { verb: 'list', resource: 'services' },
  { verb: 'create', resource: 'events', namespace: 'shop' },
  { verb: 'create', resource: 'serviceaccounts', subresource: 'token', namespace },
  { verb: 'create', group: 'authentication.k8s.io', resource: 'tokenreviews' },
  { verb: 'impersonate', resource: 'users' },
  { verb: 'update', group: 'rbac.authorization.k8s.io', resource: 'clusterroles' },
]

describe('the account', () => {
  testReal('may do each thing that the agent does', async () => {
    expect(await selectByAccess(api, account, allowed, false)).toEqual([])
  })

  testReal('may do none of what the agent never does', async () => {
    expect(await selectByAccess(api, account, refused, true)).toEqual([])
  })
})
