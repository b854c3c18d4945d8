// SPDX-License-Identifier: Apache-2.0
import * as grpc from '@grpc/grpc-js'
import { describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import type { Caller } from '../../src/base/caller.js'
import { ProtocolError } from '../../src/base/errors.js'
import { addCertificateService } from '../../src/ca/certificate-service.js'
import type { CertificateServiceOptions } from '../../src/ca/certificate-service.js'
import { CertificateMetrics } from '../../src/ca/metrics.js'
import { parsePem } from '../../src/ca/pem.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import { Signer } from '../../src/ca/signer.js'
import { X509Certificate } from 'node:crypto'
import { FakeClock, tick } from '../support/fake-clock.js'
import { MemoryPods, MemoryRootStore, TextLog, makeRequest, ztunnel } from './material.js'

const near = 'spiffe://cluster.local/ns/a/sa/near'

type Handler = (call: object, answer: (error: object | null, value?: { cert_chain: string[] }) => void) => void

interface Asked {
  readonly csr?: string
  readonly ttl?: string
  readonly impersonate?: object
  readonly headers?: Readonly<Record<string, string>>
}

class Room {
  readonly clock = new FakeClock()
  readonly log = new TextLog()
  readonly registry = new Registry()
  readonly pods = new MemoryPods()
  caller: Caller | undefined = ztunnel
  failure: Error | undefined
  #handler: Handler | undefined

  async open(options: Partial<CertificateServiceOptions> = {}): Promise<this> {
    const { clock, log, pods } = this
    const authority = new SelfSignedAuthority({
      store: new MemoryRootStore(),
      trustDomain: () => 'cluster.local',
      clock,
      log,
      isLeader: () => true,
      keyKind: 'P-256',
    })
    await authority.start(new AbortController().signal)
    const metrics = new CertificateMetrics(this.registry)
    metrics.watch(authority, clock)
    pods.pods.set('istio-system/ztunnel-1', { uid: 'uid-1', serviceAccount: 'ztunnel', node: 'node1' })
    pods.pods.set('a/near-1', { uid: 'uid-2', serviceAccount: 'near', node: 'node1' })
    pods.pods.set('a/far-1', { uid: 'uid-3', serviceAccount: 'far', node: 'node2' })
    addCertificateService(
      { addService: (_definition, handlers) => void (this.#handler = handlers['CreateCertificate'] as Handler) },
      {
        signer: new Signer({ authority, clock }),
        authenticate: async () => {
          await tick()
          if (this.failure !== undefined) throw this.failure
          return this.caller
        },
        trustedAccounts: new Set(['istio-system/ztunnel']),
        trustDomains: () => ['cluster.local', 'old@name'],
        nodes: pods,
        clock,
        log,
        metrics,
        patienceMs: 0,
        ...options,
      },
    )
    log.lines.length = 0
    return this
  }

  /** The names in the leaf, or code and words. */
  ask({ csr = makeRequest(), ttl = '0', impersonate, headers = {} }: Asked = {}): Promise<
    string | { code: number; details: string }
  > {
    const metadata = new grpc.Metadata()
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
    const fields = impersonate === undefined ? {} : { ImpersonatedIdentity: impersonate }
    const request = { csr, validity_duration: ttl, metadata: { fields } }
    return new Promise((resolve) => {
      this.#handler!({ request, metadata, getPeer: () => '10.0.0.1:1234' }, (error, value) =>
        resolve(
          error === null
            ? new X509Certificate(value!.cert_chain[0]!).subjectAltName!
            : (error as { code: number; details: string }),
        ),
      )
    })
  }

  as(identity: string): ReturnType<Room['ask']> {
    return this.ask({ impersonate: { stringValue: identity } })
  }
}

const notProven = { code: 16, details: 'the caller did not prove who it is' }
const notAllowed = { code: 16, details: 'the caller may not have a certificate for that identity' }

describe('the certificate service', () => {
  test('gives callers a certificate for themselves, whatever the request names', async () => {
    const room = await new Room().open()
    expect(await room.ask()).toBe(`URI:${ztunnel.identities[0]}`)
    expect(await room.as('')).toBe(`URI:${ztunnel.identities[0]}`)
    expect(await room.ask({ impersonate: { nullValue: 'NULL_VALUE' } })).toBe(`URI:${ztunnel.identities[0]}`)
  })

  test('gives a node proxy certificates for what runs on its node, in our trust domain or an alias', async () => {
    const room = await new Room().open({ isLocalCluster: (id) => id === 'Kubernetes' })
    expect(await room.as(near)).toBe(`URI:${near}`)
    expect(await room.as('spiffe://old.name/ns/a/sa/near')).toBe('URI:spiffe://old.name/ns/a/sa/near')
    const headers = { clusterid: 'Kubernetes' }
    expect(await room.ask({ impersonate: { stringValue: near }, headers })).toBe(`URI:${near}`)
  })

  const other = (kubernetes: Partial<NonNullable<Caller['kubernetes']>>): Caller => ({
    ...ztunnel,
    kubernetes: { ...ztunnel.kubernetes!, ...kubernetes },
  })
  const refusals: readonly (readonly [string, Caller, string, RegExp])[] = [
    [
      'of an identity that runs elsewhere',
      ztunnel,
      'spiffe://cluster.local/ns/a/sa/far',
      /no pod of a\/far is on node node1/,
    ],
    ['of an identity that runs nowhere', ztunnel, 'spiffe://cluster.local/ns/a/sa/none', /no pod of a\/none/],
    ['in a foreign trust domain', ztunnel, 'spiffe://evil.example/ns/a/sa/near', /neither ours nor an alias/],
    ['of a text that is no identity', ztunnel, `${near}/more`, /no SPFFE|no SPIFFE id/],
    ['by a token without a pod', other({ podName: undefined, podUid: undefined }), near, /not bound to a pod/],
    ['by a token of a pod that is not known', other({ podName: 'gone' }), near, /pod istio-system\/gone is not known/],
    ['by a token of an earlier pod of that name', other({ podUid: 'before' }), near, /another UID/],
    ['by an account that is not trusted', other({ serviceAccount: 'app' }), near, /not among CA_TRUSTED_NODE_ACCOUNTS/],
    ['by a client certificate', { identities: [near], source: 'certificate' }, near, /no Kubernetes token/],
  ]
  test.each(refusals)(
    'refuses impersonation %s without saying why; the log does',
    async (_what, caller, identity, why) => {
      const room = await new Room().open()
      room.caller = caller
      expect(await room.as(identity)).toEqual(notAllowed)
      expect(room.log.alarms).toEqual([expect.stringMatching(why)])
    },
  )

  test('refuses a proxy whose pod has another account than its token', async () => {
    const room = await new Room().open()
    room.pods.pods.set('istio-system/ztunnel-1', { uid: 'uid-1', serviceAccount: 'default', node: 'node1' })
    expect(await room.as(near)).toEqual(notAllowed)
  })

  test('refuses all impersonation while no account is trusted, and for other clusters', async () => {
    expect(await (await new Room().open({ trustedAccounts: new Set() })).as(near)).toEqual(notAllowed)
    expect(await (await new Room().open({ nodes: undefined })).as(near)).toEqual(notAllowed)
    const room = await new Room().open({ isLocalCluster: (id) => id === 'Kubernetes' })
    const headers = { clusterid: 'elsewhere' }
    expect(await room.ask({ impersonate: { stringValue: near }, headers })).toEqual(notAllowed)
  })

  test('refuses a name that is not a text', async () => {
    const room = await new Room().open()
    expect(await room.ask({ impersonate: { numberValue: 7 } })).toMatchObject({ code: 3 })
  })

  test('waits a moment for a pod that is not known yet', async () => {
    const room = await new Room().open({ patienceMs: 1000 })
    const far = 'spiffe://cluster.local/ns/a/sa/far'
    const answers = [room.as(far), room.as(far)]
    await room.clock.advance(300)
    room.pods.pods.set('a/far-2', { uid: 'uid-4', serviceAccount: 'far', node: 'node1' })
    await room.clock.advance(100)
    expect(await Promise.all(answers)).toEqual([`URI:${far}`, `URI:${far}`])
    const late = room.as('spiffe://cluster.local/ns/a/sa/none')
    await room.clock.advance(1100)
    expect(await late).toEqual(notAllowed)
  })

  test('says to come again when it cannot be found out who calls, and nothing more when nobody proved it', async () => {
    const room = await new Room().open()
    room.caller = undefined
    expect(await room.ask()).toEqual(notProven)
    room.failure = new ProtocolError('token of another audience', 16)
    expect(await room.ask()).toEqual(notProven)
    room.failure = new ProtocolError('the API server is away', 14)
    expect(await room.ask()).toMatchObject({ code: 14 })
    room.failure = undefined
    room.caller = { identities: [], source: 'oidc' }
    expect(await room.ask()).toEqual(notProven)
    expect(room.log.alarms.map((line) => /"reason":"([^"]*)"/.exec(line)?.[1])).toEqual([
      'no proof',
      'token of another audience',
      'the API server is away',
      undefined,
    ])
  })

  test('is not there on a port where it is not served', async () => {
    const room = await new Room().open({ isServed: () => false })
    expect(await room.ask()).toMatchObject({ code: 12 })
  })

  test('says what is wrong with a request', async () => {
    const room = await new Room().open()
    expect(await room.ask({ csr: 'text' })).toMatchObject({ code: 3 })
    expect(await room.ask({ ttl: '9223372036854775807' })).toMatchObject({ code: 3 })
  })

  test('counts under the names that dashboards know, once there is something to count', async () => {
    const room = await new Room().open()
    const read = async (): Promise<Readonly<Record<string, number>>> => {
      const metrics = await room.registry.getMetricsAsJSON()
      return Object.fromEntries(
        metrics.flatMap(({ name, values }) =>
          values.map(({ value, labels }) => [[name, ...Object.values(labels)].join(' '), value] as const),
        ),
      )
    }
    const root = { citadel_server_root_cert_expiry_seconds: 3650 * 86_400 - 120 }
    expect(await read()).toMatchObject(root)
    expect(Object.keys(await read()).sort()).toEqual([
      'citadel_server_root_cert_expiry_seconds',
      'citadel_server_root_cert_expiry_timestamp',
    ])
    await room.ask()
    await room.ask({ csr: 'text' })
    await room.ask({ ttl: '99999999999' })
    await room.as('spiffe://cluster.local/ns/a/sa/far')
    room.caller = undefined
    await room.ask()
    expect(await read()).toMatchObject({
      citadel_server_csr_count: 5,
      citadel_server_success_cert_issuance_count: 1,
      citadel_server_authentication_failure_count: 2,
      'citadel_server_csr_sign_err_count CSR_ERROR': 1,
      'citadel_server_csr_sign_err_count TTL_ERROR': 1,
    })
  })

  test('never logs a request', async () => {
    const room = await new Room().open()
    const csr = makeRequest()
    await room.ask({ csr })
    await room.ask({ csr: csr.replace('-----BEGIN', 'x') })
    await room.ask({ csr, ttl: '99999999999' })
    expect(parsePem(csr).length).toBe(1)
    expect(room.log.lines.join('\n')).not.toMatch(/BEGIN|MI[A-Za-z0-9+/]{30}/)
  })
})
