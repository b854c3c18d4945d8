// SPDX-License-Identifier: Apache-2.0
// A real ztunnel of a node gets certificates for the pods of its node, and for nobody else's. Without a data path: nothing redirects traffic to it.

import { fileURLToPath } from 'node:url'
import { X509Certificate } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect } from '@jest/globals'
import type { KubeObject } from '../address/room.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import { nameOf, namespace, pod } from './objects.js'
import { expectHeld, Room, type RoomOptions } from './room.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const missing = whyNoZtunnel()
const maybe = testWith('ztunnel', missing)

let room: Room | undefined
afterEach(async () => {
  await room?.close()
  room = undefined
})

const trusted: RoomOptions = { env: { CA_TRUSTED_NODE_ACCOUNTS: 'istio-system/ztunnel' } }
const proxyOf = (node: string): KubeObject => ({
  ...pod(`istio-system/ztunnel-${node}`, { ip: node === 'node1' ? '10.0.0.1' : '10.0.0.2', node, captured: false }),
  spec: { nodeName: node, serviceAccountName: 'ztunnel', containers: [] },
})
const objects = [
  namespace('a'),
  proxyOf('node1'),
  proxyOf('node2'),
  pod('a/web', { ip: '10.1.0.1' }),
  pod('a/plain', { ip: '10.1.0.2', captured: false }),
  pod('a/far', { ip: '10.1.1.3', node: 'node2' }),
]
const id = (name: string): string => `spiffe://cluster.local/ns/a/sa/${name}`

/** As on node1, with a token. */
async function startNodeProxy(token: string, env: Readonly<Record<string, string>> = {}): Promise<Ztunnel> {
  return room!.startZtunnel(await room!.openSpace(), {
    PROXY_MODE: 'shared',
    SERVICE_ACCOUNT: 'ztunnel',
    POD_NAME: 'ztunnel-node1',
    INPOD_UDS: '/nonexistent/ztunnel.sock',
    AUTH_TOKEN: token,
    ...env,
  })
}

/** Identity and state of every certificate, in order; those that are being fetched are waited for. */
async function states(ztunnel: Ztunnel): Promise<readonly string[]> {
  const certificates = await ztunnel.certificates()
  return certificates.map(({ identity, state }) => `${identity} ${state.split(':')[0]}`).sort()
}

async function expectStates(ztunnel: Ztunnel, wanted: readonly string[]): Promise<void> {
  await until(
    async () => (await states(ztunnel)).join() === wanted.join(),
    () => `certificates; last words:\n${ztunnel.lines.slice(-8).join('\n')}`,
  ).catch(async (error: unknown) => {
    expect(await states(ztunnel)).toEqual(wanted)
    throw error
  })
}

/** The names in the certificate of an identity, and that it verifies against the roots. */
async function checkCertificate(ztunnel: Ztunnel, identity: string): Promise<void> {
  const found = (await ztunnel.certificates()).find((certificate) => certificate.identity === identity)
  const [leaf] = (found?.certChain ?? []).map(({ pem }) => new X509Certificate(Buffer.from(pem, 'base64')))
  expect(leaf?.subjectAltName).toBe(`URI:${identity}`)
  expect(leaf?.verify(new X509Certificate(room!.root).publicKey)).toBe(true)
}

describe('a real ztunnel of a node', () => {
  maybe('has a certificate for each captured pod of its node, as they come and go', async () => {
    room = await Room.open(objects, trusted)
    const self = { name: 'ztunnel-node1', uid: 'uid-of-ztunnel-node1' }
    const ztunnel = await startNodeProxy(await room.token('istio-system', 'ztunnel', self))
    await expectStates(ztunnel, [`${id('web')} Available`])
    await checkCertificate(ztunnel, id('web'))
    const late = pod('a/late', { ip: '10.1.0.4' })
    room.change([late])
    await expectStates(ztunnel, [`${id('late')} Available`, `${id('web')} Available`])
    room.change([], [nameOf(late)])
    await expectStates(ztunnel, [`${id('web')} Available`])
  })

  maybe('gets none with the token of a proxy of another node', async () => {
    room = await Room.open(objects, trusted)
    const other = { name: 'ztunnel-node2', uid: 'uid-of-ztunnel-node2' }
    const ztunnel = await startNodeProxy(await room.token('istio-system', 'ztunnel', other))
    await expectStates(ztunnel, [`${id('web')} Unavailable`])
  })

  maybe('gets none with a token that is bound to no pod', async () => {
    room = await Room.open(objects, trusted)
    const ztunnel = await startNodeProxy(await room.token('istio-system', 'ztunnel'))
    await expectStates(ztunnel, [`${id('web')} Unavailable`])
  })

  maybe('is told nothing when its account is not among those that are trusted', async () => {
    room = await Room.open(objects, trusted)
    const self = { name: 'ztunnel-node1', uid: 'uid-of-ztunnel-node1' }
    const ztunnel = await startNodeProxy(await room.token('istio-system', 'other', self))
    await until(
      () => Promise.resolve(ztunnel.lines.some((line) => line.includes('CA_TRUSTED_NODE_ACCOUNTS'))),
      () => `to be refused:\n${ztunnel.lines.slice(-8).join('\n')}`,
    )
    expect((await ztunnel.held()).workloads).toEqual([])
  })
})

describe('a real ztunnel with the tokens of a real API server', () => {
  const definitions = fileURLToPath(new URL('../../charts/addressd/crds', import.meta.url))
  let api: ApiServer | { unavailable: string } = { unavailable: missing ?? 'not started' }
  const maybeReal = missing === undefined ? maybe : testWith('ztunnel', missing)

  beforeAll(async () => {
    if (missing === undefined) api = await startApiServer({ crdsFolder: definitions })
  }, apiServerStartTimeoutMs)
  afterAll(async () => {
    if ('stop' in api) await api.stop()
  })

  /** Creates; gives what the API server made of it. */
  async function post(path: string, body: object): Promise<any> {
    const answer = await (api as ApiServer).request('POST', path, body)
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.body.toString()}`)
    return answer.json()
  }

  async function postPod(object: KubeObject): Promise<string> {
    const { namespace: ns = '', name, uid: _uid, ...meta } = object.metadata
    const path = `/api/v1/namespaces/${ns}/pods`
    const spec = { ...(object['spec'] as object), containers: [{ name: 'main', image: 'registry.example/app:1' }] }
    const made = await post(path, { ...object, metadata: { ...meta, name }, spec, status: undefined })
    const patched = await (api as ApiServer).request(
      'PATCH',
      `${path}/${name}/status`,
      { status: object['status'] },
      { 'content-type': 'application/merge-patch+json' },
    )
    expect(patched.status).toBe(200)
    return made.metadata.uid
  }

  maybeReal('has certificates by a reviewed token that is bound to its pod', async () => {
    if ('unavailable' in api) {
      process.stderr.write(`SKIPPED: api-server: ${api.unavailable}\n`)
      return
    }
    for (const name of ['a', 'istio-system']) await post('/api/v1/namespaces', { metadata: { name } })
    const accounts = '/api/v1/namespaces/istio-system/serviceaccounts'
    await post(accounts, { metadata: { name: 'ztunnel' } })
    const uid = await postPod(proxyOf('node1'))
    for (const object of objects.slice(3)) await postPod(object)
    const bound = { kind: 'Pod', apiVersion: 'v1', name: 'ztunnel-node1', uid }
    const { status } = await post(`${accounts}/ztunnel/token`, {
      spec: { audiences: ['istio-ca'], expirationSeconds: 3600, boundObjectRef: bound },
    })

    room = await Room.open([], { ...trusted, kubeconfig: api.kubeconfigPath })
    const secret = await api.request('GET', '/api/v1/namespaces/istio-system/secrets/istio-ca-secret')
    room.apiRoot = Buffer.from(secret.json().data['ca-cert.pem'], 'base64').toString()
    const ztunnel = await startNodeProxy(status.token, {
      // With an API server the names are those of a service in a cluster.
      ALT_XDS_HOSTNAME: 'istiod.istio-system.svc',
      ALT_CA_HOSTNAME: 'istiod.istio-system.svc',
    })
    await expectStates(ztunnel, [`${id('web')} Available`])
    await checkCertificate(ztunnel, id('web'))
    await expectHeld(ztunnel, () => room!.expected())
  })
})
