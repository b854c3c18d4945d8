// SPDX-License-Identifier: Apache-2.0
// Two replicas on a real API server, over TLS with real tokens: one root for both, given out in every namespace, streams and certificates only
// for those who prove who they are.

import { X509Certificate } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import grpc from '@grpc/grpc-js'
import { afterAll, beforeAll, expect } from '@jest/globals'
import { createKubeApi } from '../../src/kube/client.js'
import { startServer, type RunningServer } from '../../src/main/serve.js'
import { loadCertificateService } from '../../src/wire/certificate.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import { makeRequest } from '../ca/material.js'
import { LogBook } from '../reports/log-book.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { JumpClock } from '../support/jump-clock.js'
import { testWith } from '../support/optional.js'
import { XdsClient } from '../support/xds-client.js'
import { addressed, pod } from './mesh.js'
import { ClusterObjects } from './objects.js'
import { readSettings } from './room.js'

const timeoutMs = 180_000
const definitions = fileURLToPath(new URL('../../charts/addressd/crds', import.meta.url))
const started = await startApiServer({ crdsFolder: definitions })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const objects = new ClusterObjects(api.request)
const serverName = 'istiod.istio-system.svc'
const replicas: { server: RunningServer; log: LogBook; clock: JumpClock }[] = []
const secretPath = '/api/v1/namespaces/istio-system/secrets/istio-ca-secret'
const mapPath = (namespace: string): string => `/api/v1/namespaces/${namespace}/configmaps/istio-ca-root-cert`

async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const end = performance.now() + 60_000
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function read(path: string): Promise<any> {
  const answer = await api.request('GET', path)
  return answer.status === 200 ? answer.json() : undefined
}

async function startReplica(): Promise<void> {
  const clock = new JumpClock()
  const log = new LogBook()
  const kube = await createKubeApi({ kubeconfig: api.kubeconfigPath, clock })
  const settings = {
    ...readSettings(['--kubeconfig', api.kubeconfigPath, '--secureGRPCAddr=127.0.0.1:0']),
    caTrustedNodeAccounts: { accounts: new Set(['istio-system/ztunnel']), malformed: [] },
  }
  replicas.push({ server: await startServer({ settings, clock, log, api: kube }), log, clock })
}

/** A token of the account, bound to the pod when one is named. */
async function tokenOf(namespace: string, account: string, podName?: string, audience = 'istio-ca'): Promise<string> {
  const bound = podName === undefined ? undefined : await read(`/api/v1/namespaces/${namespace}/pods/${podName}`)
  const spec = {
    audiences: [audience],
    expirationSeconds: 3600,
    ...(bound && { boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: podName, uid: bound.metadata.uid } }),
  }
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`
  const answer = await api.request('POST', path, { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec })
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.body.toString()}`)
  return answer.json().status.token
}

const rootOf = (replica = 0): string => {
  const found = replicas[replica]?.server.parts.certificates.roots
  if (found === undefined) throw new Error('no roots')
  return found
}

const portOf = (replica = 0): number => replicas[replica]!.server.bound.secureGrpc!.port

/** Opens a wildcard stream; what came of it. */
async function ask(headers: Record<string, string>, namespace = 'istio-system'): Promise<string> {
  const client = new XdsClient({
    port: portOf(),
    ca: rootOf(),
    serverName,
    headers,
    node: { id: `ztunnel~10.1.0.9~z.${namespace}~x`, metadata: { NAMESPACE: namespace } },
  })
  try {
    client.send({ type: 'Address' })
    await client.until(() => client.received > 0 || client.ended !== undefined, 'an answer or an end', 30_000)
    return client.received > 0 ? 'answered' : `${client.ended?.code}: ${client.ended?.message}`
  } finally {
    client.destroy()
  }
}

/** Asks for a certificate; its names, or how it was refused. */
async function sign(token: string, identity?: string): Promise<string> {
  const credentials = grpc.credentials.createSsl(Buffer.from(rootOf()))
  const Client = grpc.makeGenericClientConstructor(loadCertificateService(), 'Certificates')
  const client = new Client(`127.0.0.1:${portOf()}`, credentials, {
    'grpc.ssl_target_name_override': serverName,
  }) as any
  const metadata = new grpc.Metadata()
  metadata.set('authorization', `Bearer ${token}`)
  metadata.set('clusterid', 'Kubernetes')
  const fields = identity === undefined ? {} : { ImpersonatedIdentity: { stringValue: identity } }
  const request = { csr: makeRequest(), validity_duration: '3600', metadata: { fields } }
  try {
    return await new Promise((resolve) => {
      client.CreateCertificate(request, metadata, (error: any, response: any) => {
        if (error) resolve(`${error.code}: ${error.details}`)
        else resolve(new X509Certificate(response.cert_chain[0]).subjectAltName ?? '')
      })
    })
  } finally {
    client.close()
  }
}

beforeAll(async () => {
  if ('unavailable' in started) return
  for (const name of ['istio-system', 'shop']) await objects.create({ kind: 'Namespace', metadata: { name } })
  for (const [namespace, name] of [
    ['istio-system', 'ztunnel'],
    ['shop', 'web'],
    ['shop', 'far'],
  ] as const) {
    const answer = await api.request('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } })
    expect(answer.status).toBe(201)
  }
  const on = (namespace: string, name: string, account: string, node: string) => {
    const made = pod(namespace, name) as any
    return { ...made, spec: { ...made.spec, serviceAccountName: account, nodeName: node } }
  }
  await objects.create({ ...on('istio-system', 'ztunnel-1', 'ztunnel', 'node-1'), status: addressed('10.1.0.1') })
  await objects.create({ ...on('shop', 'web-1', 'web', 'node-1'), status: addressed('10.1.0.2') })
  await objects.create({ ...on('shop', 'far-1', 'far', 'node-2'), status: addressed('10.1.0.3') })
  await Promise.all([startReplica(), startReplica()])
  await Promise.all(replicas.map(({ server }) => server.started))
}, apiServerStartTimeoutMs + timeoutMs)

afterAll(async () => {
  for (const { server } of replicas) await server.stop()
  if (!('unavailable' in started)) await api.stop()
}, timeoutMs)

testReal(
  'replicas that start together agree on one root, which stands in the Secret and in every namespace',
  async () => {
    expect(rootOf(0)).toBe(rootOf(1))
    const secret = await read(secretPath)
    expect(Buffer.from(secret.data['ca-cert.pem'], 'base64').toString()).toBe(rootOf())
    for (const namespace of ['shop', 'istio-system', 'kube-system', 'default']) {
      const map = await until(`the map of ${namespace}`, () => read(mapPath(namespace)))
      expect(map.data['root-cert.pem']).toBe(rootOf())
    }
    expect(await read(mapPath('kube-public'))).toBeUndefined()
  },
  timeoutMs,
)

testReal(
  'replicas serve the same names in the same versions',
  () => {
    const [first, second] = replicas.map(({ server }) => {
      const source = server.parts.served.address.store.source(ADDRESS_TYPE)
      return [...(source?.all() ?? [])].map(({ name, version }) => `${name} ${version}`).sort()
    })
    expect(first?.length).toBeGreaterThanOrEqual(3)
    expect(second).toEqual(first)
  },
  timeoutMs,
)

testReal(
  'a map that somebody edits or deletes is put right, and a new namespace is given one',
  async () => {
    const merge = { 'content-type': 'application/merge-patch+json' }
    await api.request('PATCH', mapPath('shop'), { data: { 'root-cert.pem': 'nonsense', other: 'stays' } }, merge)
    await until('the edit to be undone', async () => {
      const { data } = await read(mapPath('shop'))
      return data['root-cert.pem'] === rootOf() && data.other === 'stays' ? true : undefined
    })
    await api.request('DELETE', mapPath('shop'))
    await until('the map to be back', () => read(mapPath('shop')))
    await objects.create({ kind: 'Namespace', metadata: { name: 'late' } })
    await until('the map of the new namespace', () => read(mapPath('late')))
  },
  timeoutMs,
)

testReal(
  'addresses over TLS go to the trusted account alone, and refusals say why',
  async () => {
    const proxy = await tokenOf('istio-system', 'ztunnel', 'ztunnel-1')
    expect(await ask({ authorization: `Bearer ${proxy}`, clusterid: 'Kubernetes' })).toBe('answered')
    expect(await ask({})).toMatch(/^16: /)
    expect(await ask({ authorization: 'Bearer nonsense' })).toMatch(/^16: /)
    const foreign = await tokenOf('istio-system', 'ztunnel', 'ztunnel-1', 'elsewhere')
    expect(await ask({ authorization: `Bearer ${foreign}` })).toMatch(/^16: /)
    const web = await tokenOf('shop', 'web', 'web-1')
    expect(await ask({ authorization: `Bearer ${web}` }, 'shop')).toMatch(/^7: .*XDS_TRUSTED_ACCOUNTS/)
    expect(await ask({ authorization: `Bearer ${proxy}` }, 'shop')).toMatch(/^7: /)
  },
  timeoutMs,
)

testReal(
  'a node proxy has certificates for accounts on its own node, and for no others',
  async () => {
    const proxy = await tokenOf('istio-system', 'ztunnel', 'ztunnel-1')
    expect(await sign(proxy, 'spiffe://cluster.local/ns/shop/sa/web')).toBe('URI:spiffe://cluster.local/ns/shop/sa/web')
    expect(await sign(proxy)).toBe('URI:spiffe://cluster.local/ns/istio-system/sa/ztunnel')
    expect(await sign(proxy, 'spiffe://cluster.local/ns/shop/sa/far')).toMatch(/^16: /)
    expect(await sign(proxy, 'spiffe://evil.example/ns/shop/sa/web')).toMatch(/^16: /)
    expect(await sign(await tokenOf('istio-system', 'ztunnel'), 'spiffe://cluster.local/ns/shop/sa/web')).toMatch(
      /^16: /,
    )
    const web = await tokenOf('shop', 'web', 'web-1')
    expect(await sign(web, 'spiffe://cluster.local/ns/istio-system/sa/ztunnel')).toMatch(/^16: /)
    expect(await sign(web)).toBe('URI:spiffe://cluster.local/ns/shop/sa/web')
  },
  timeoutMs,
)

testReal(
  'a deleted root Secret is written back as it was',
  async () => {
    const before = rootOf()
    await api.request('DELETE', secretPath)
    const secret = await until('the Secret to be back', async () => {
      // The next look by themselves is an hour away.
      for (const { server } of replicas) await server.parts.certificates.check()
      return await read(secretPath)
    })
    expect(Buffer.from(secret.data['ca-cert.pem'], 'base64').toString()).toBe(before)
    expect([rootOf(0), rootOf(1)]).toEqual([before, before])
  },
  timeoutMs,
)
