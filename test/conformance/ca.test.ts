// SPDX-License-Identifier: Apache-2.0
// Recorded answers of a certificate authority, call by call, over TLS against the real server with real authentication; only the API server is made up.
// Knows the words of the table, no row by name.

import { X509Certificate, createPrivateKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import * as grpc from '@grpc/grpc-js'
import { Registry } from 'prom-client'
import { createAuthentication } from '../../src/auth/authentication.js'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import type { Authority } from '../../src/ca/authority.js'
import { addCertificateService } from '../../src/ca/certificate-service.js'
import { encodeRootName, signLeaf } from '../../src/ca/certificates.js'
import { CertificateMetrics } from '../../src/ca/metrics.js'
import { formatPem, parsePem } from '../../src/ca/pem.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import { ServerCertificate, selectServerNames } from '../../src/ca/server-certificate.js'
import { Signer } from '../../src/ca/signer.js'
import { parseBundle } from '../../src/ca/signing-bundle.js'
import { loadX509 } from '../../src/ca/x509.js'
import { CERTIFICATE_SERVICE, loadCertificateService } from '../../src/wire/certificate.js'
import { readCredentials } from '../../src/xds/caller.js'
import { createXdsServer } from '../../src/xds/server.js'
import type { XdsServer } from '../../src/xds/server.js'
import { MemoryPods, MemoryRootStore, keyOf, makeRequest } from '../ca/material.js'
import type { KeyKind, RequestOptions } from '../ca/material.js'
import { ToyStore } from '../support/toy-store.js'
import { casesFolder } from './folder.js'
import { makeAuthorityOfThree } from '../ca/plugged-material.js'

interface Answer {
  readonly code: number
  readonly class?: string
  readonly san?: string
  readonly publicKey?: string
  readonly validSeconds?: number
  readonly subject?: string
  readonly chain?: readonly number[]
}

interface Row extends Answer {
  readonly case: string
  readonly request: Readonly<Record<string, any>>
  readonly deviation?: { readonly why: string; readonly expect: Partial<Answer>; readonly orAsRecorded?: boolean }
}

interface Table {
  readonly settings: {
    readonly trustDomain: string
    readonly trustedNodeAccounts: readonly string[]
    readonly clusterId: string
    readonly defaultTtlSeconds: number
    readonly maxTtlSeconds: number
    readonly tokenAudience: string
    readonly pods: readonly {
      readonly namespace: string
      readonly serviceAccount: string
      readonly node: string
      readonly name?: string
      readonly phase: string
    }[]
  }
  readonly leaf: Readonly<Record<string, any>>
  readonly selfSignedRoot: Readonly<Record<string, any>>
  readonly rows: readonly Row[]
  readonly pluggedIn: { readonly signature: string; readonly rows: readonly Row[] }
  readonly serverCertificate: Readonly<Record<string, any>>
}

const folder = casesFolder('ca')
const table = folder === undefined ? undefined : (JSON.parse(readFileSync(join(folder, 'table.json'), 'utf8')) as Table)
const ztunnelId = 'spiffe://cluster.local/ns/istio-system/sa/ztunnel'

/** What an API server says of a token, by the words of the table. */
interface Token {
  readonly audiences: readonly string[]
  readonly account: string
  readonly pod?: { readonly name: string; readonly uid: string }
}

const bound: Token = {
  audiences: ['istio-ca'],
  account: 'istio-system:ztunnel',
  pod: { name: 'ztunnel-1', uid: 'uid-of-ztunnel-1' },
}
const tokens: Readonly<Record<string, Token>> = {
  'pod-bound': bound,
  ztunnel: bound,
  fresh: bound,
  'audiences istio-ca and another': { ...bound, audiences: ['istio-ca', 'another'] },
  'audience https://kubernetes.default.svc': { ...bound, audiences: ['https://kubernetes.default.svc'] },
  'not pod-bound': { audiences: ['istio-ca'], account: 'istio-system:ztunnel' },
  'other account': { ...bound, account: 'istio-system:other', pod: { name: 'other', uid: 'uid-of-other' } },
  'its pod was deleted': { ...bound, pod: { name: 'ztunnel-0', uid: 'uid-of-ztunnel-0' } },
  'its pod was made again': { ...bound, pod: { name: 'ztunnel-1', uid: 'uid-before' } },
}
const toBearer = (token: string): string => Buffer.from(token).toString('base64url')

function review(body: string): { readonly status: number; readonly body: string } {
  const { spec } = JSON.parse(body) as { spec: { token: string; audiences: readonly string[] } }
  const token = Object.entries(tokens).find(([name]) => toBearer(name) === spec.token)?.[1]
  const audiences = token?.audiences.filter((audience) => spec.audiences.includes(audience)) ?? []
  if (token === undefined || audiences.length === 0) {
    return { status: 201, body: JSON.stringify({ status: { authenticated: false, error: 'no' } }) }
  }
  const prefix = 'authentication.kubernetes.io'
  const extra =
    token.pod === undefined ? {} : { [`${prefix}/pod-name`]: [token.pod.name], [`${prefix}/pod-uid`]: [token.pod.uid] }
  const user = {
    username: `system:serviceaccount:${token.account}`,
    groups: ['system:serviceaccounts', 'system:authenticated'],
    extra,
  }
  return { status: 201, body: JSON.stringify({ status: { authenticated: true, audiences, user } }) }
}

interface Outcome {
  readonly code: number
  readonly details: string
  readonly chain: readonly string[]
}

/** A server with an authority, and its callers. */
class Room {
  readonly server: XdsServer
  readonly pods = new MemoryPods()
  readonly #authority: Authority
  readonly #stop = new AbortController()
  tls = { cert: '', key: '', clientCa: '' }
  #ports = { secure: 0, clear: 0 }

  constructor({ settings }: Table, authority: Authority) {
    this.#authority = authority
    for (const { namespace, serviceAccount, node, name = serviceAccount, phase } of settings.pods) {
      if (phase === 'Failed') continue
      this.pods.pods.set(`${namespace}/${name}`, { uid: `uid-of-${name}`, serviceAccount, node })
    }
    this.server = createXdsServer({
      store: new ToyStore(),
      clock: systemClock,
      log: silentLogger,
      registry: new Registry(),
    })
    const accounts = new Set(settings.trustedNodeAccounts)
    const authentication = createAuthentication({
      clock: systemClock,
      log: silentLogger,
      clusterId: settings.clusterId,
      systemNamespace: 'istio-system',
      trustDomains: () => [settings.trustDomain],
      sendReview: (body) => Promise.resolve(review(body)),
      audiences: [settings.tokenAudience],
      jwtRules: [],
      enabled: true,
      plaintext: false,
      checksNode: true,
      trustedAccounts: { accounts: new Set(), malformed: [] },
      trustedNodeAccounts: { accounts, malformed: [] },
      debugByNamespace: true,
      debugNamespaces: [],
    })
    const { defaultTtlSeconds, maxTtlSeconds } = settings
    this.server.addInner((inner) =>
      addCertificateService(inner, {
        signer: new Signer({ authority, clock: systemClock, defaultTtlSeconds, maxTtlSeconds }),
        authenticate: (call) => authentication.authenticate(readCredentials(call.metadata)),
        isServed: (call) => readCredentials(call.metadata).secure,
        isLocalCluster: (clusterId) => clusterId === settings.clusterId,
        trustedAccounts: accounts,
        trustDomains: () => [settings.trustDomain],
        nodes: this.pods,
        clock: systemClock,
        log: silentLogger,
        metrics: new CertificateMetrics(new Registry()),
        patienceMs: 0,
      }),
    )
  }

  async open(): Promise<void> {
    await this.#authority.start(this.#stop.signal)
    const names = selectServerNames({ namespace: 'istio-system', revision: 'default', isLocal: true })
    const certificate = new ServerCertificate({
      authority: this.#authority,
      clock: systemClock,
      log: silentLogger,
      names,
    })
    this.tls = await certificate.start(this.#stop.signal)
    const secure = await this.server.listen({ host: '127.0.0.1', port: 0, tls: this.tls })
    const clear = await this.server.listen({ host: '127.0.0.1', port: 0 })
    this.#ports = { secure: secure.port, clear: clear.port }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.server.close()
  }

  /** One call on a connection of its own. */
  async ask(request: Row['request']): Promise<Outcome> {
    const isClear = request['transport'] === 'plaintext'
    const certificate = await this.#clientCertificate(request['clientCertificate'] as string | undefined)
    const credentials = isClear
      ? grpc.credentials.createInsecure()
      : grpc.credentials.createSsl(
          Buffer.from(this.tls.clientCa),
          certificate && Buffer.from(certificate.key),
          certificate && Buffer.from(certificate.cert),
        )
    const client = new grpc.Client(`localhost:${isClear ? this.#ports.clear : this.#ports.secure}`, credentials)
    const { CreateCertificate } = loadCertificateService()
    try {
      return await new Promise<Outcome>((resolve) => {
        client.makeUnaryRequest(
          CreateCertificate.path,
          CreateCertificate.requestSerialize,
          CreateCertificate.responseDeserialize,
          {
            csr: toCsr(request),
            validity_duration: String(request['validitySeconds'] ?? 86_400),
            metadata: toMetadata(request),
          },
          toHeaders(request),
          (error, response) =>
            resolve({ code: error?.code ?? 0, details: error?.details ?? '', chain: response?.cert_chain ?? [] }),
        )
      })
    } finally {
      client.close()
    }
  }

  /** One of our own trust domain is signed by us; a foreign one by an authority that we know nothing of. */
  async #clientCertificate(name: string | undefined): Promise<{ cert: string; key: string } | undefined> {
    if (name === undefined) return undefined
    const { bundle } = this.#authority
    if (bundle === undefined) throw new Error('the authority has not started')
    const isOurs = name.startsWith('spiffe://cluster.local/')
    const foreign = keyOf('p384')
    const issuer = isOurs ? bundle.issuer : { key: foreign, name: encodeRootName('evil.example'), keyId: undefined }
    const key = keyOf('p256')
    const x509 = await loadX509()
    const publicKey = Buffer.from(new x509.Pkcs10CertificateRequest(makeRequest()).publicKey.rawData)
    const nowMs = Date.now()
    const fields = {
      publicKey,
      names: [name],
      hasCommonName: false,
      notBeforeMs: nowMs - 1000,
      notAfterMs: nowMs + 1e6,
    }
    const cert = formatPem('CERTIFICATE', await signLeaf(fields, issuer))
    return { cert: cert + bundle.chain.join(''), key: key.export({ type: 'pkcs8', format: 'pem' }) as string }
  }
}

function toHeaders(request: Row['request']): grpc.Metadata {
  const headers = new grpc.Metadata()
  const token = request['token'] as string | undefined
  const bearer = token === 'garbage' ? 'garbage' : toBearer(token ?? 'pod-bound')
  const authorization = request['authorization'] as string | undefined
  if (token !== 'none') headers.set('authorization', authorization?.replace(/T$/, bearer) ?? `Bearer ${bearer}`)
  const clusterId = (request['clusterid'] as string | undefined) ?? 'Kubernetes'
  if (clusterId !== 'absent') headers.set('clusterid', clusterId)
  return headers
}

function toMetadata(request: Row['request']): { fields: Record<string, object> } {
  const fields: Record<string, object> = {}
  for (const [key, value] of Object.entries((request['metadata'] as object | undefined) ?? {})) {
    fields[key] = { stringValue: String(value) }
  }
  const wanted = request['impersonate'] as string | number | undefined
  if (typeof wanted === 'number') fields['ImpersonatedIdentity'] = { numberValue: wanted }
  else if (wanted !== undefined) {
    fields['ImpersonatedIdentity'] = { stringValue: wanted === 'own identity' ? ztunnelId : wanted }
  }
  return { fields }
}

const requestsByWord: Readonly<Record<string, (options: RequestOptions) => string>> = {
  '': () => '',
  text: () => 'text',
  'PEM, not PKCS#10': () => formatPem('CERTIFICATE REQUEST', Buffer.from('nonsense')),
  'signature tampered': (options) =>
    makeRequest({
      ...options,
      tamper: (der) => {
        const at = der.length - 5
        der[at] = der.readUInt8(at) ^ 1
      },
    }),
  'NEW CERTIFICATE REQUEST': (options) => makeRequest({ ...options, label: 'NEW CERTIFICATE REQUEST' }),
  'label CERTIFICATE': (options) => makeRequest({ ...options, label: 'CERTIFICATE' }),
  'text around the PEM': (options) => `before\n${makeRequest(options)}after\n`,
  'CA:TRUE, keyCertSign, codeSigning': (options) => makeRequest({ ...options, asksForAuthority: true }),
}

function toCsr(request: Row['request']): string {
  const names = request['csrSan'] as string | undefined
  const options: RequestOptions = {
    key: keyOf((request['key'] as KeyKind | undefined) ?? 'p256'),
    ...(names === undefined
      ? {}
      : {
          names:
            names === 'none' ? [] : names === 'URI, DNS, IP' ? ['spiffe://x/ns/y/sa/z', 'a.b', '10.0.0.1'] : [names],
        }),
    ...(request['subject'] === undefined ? {} : { subject: request['subject'] as string }),
    ...(request['csrDigest'] === undefined ? {} : { digest: request['csrDigest'] as 'sha1' }),
  }
  const word = request['csr'] as string | undefined
  if (word === undefined) return makeRequest(options)
  const make = requestsByWord[word]
  if (make === undefined) throw new Error(`the table has a kind of request that the test does not know: ${word}`)
  return make(options)
}

/** What a leaf is, in the words of the table. */
async function describeLeaf(pem: string): Promise<Readonly<Record<string, unknown>>> {
  const x509 = await loadX509()
  const leaf = new x509.X509Certificate(pem)
  const details = new X509Certificate(pem).publicKey
  const { namedCurve = '', modulusLength = 0 } = details.asymmetricKeyDetails ?? {}
  const bits = { secp224r1: 224, prime256v1: 256, secp384r1: 384, secp521r1: 521 }[namedCurve] ?? modulusLength
  const kinds: Readonly<Record<string, string>> = { ec: 'id-ecPublicKey', rsa: 'rsaEncryption' }
  const type = details.asymmetricKeyType ?? ''
  const names = leaf.getExtension(x509.SubjectAlternativeNameExtension)
  return {
    san: names?.names.items.map((name) => name.value).join(','),
    publicKey: type === 'ed25519' ? 'ED25519' : `${kinds[type] ?? type} ${bits}`,
    validSeconds: (leaf.notAfter.getTime() - leaf.notBefore.getTime()) / 1000 - 120,
    subject: leaf.subject,
    extensions: leaf.extensions.map(({ type: oid, critical }) => `${oid}${critical ? ' critical' : ''}`),
    usages: leaf.getExtension(x509.KeyUsagesExtension)?.usages,
    purposes: leaf.getExtension(x509.ExtendedKeyUsageExtension)?.usages,
    isAuthority: leaf.getExtension(x509.BasicConstraintsExtension)?.ca,
  }
}

const profile = {
  extensions: ['2.5.29.15 critical', '2.5.29.37', '2.5.29.19 critical', '2.5.29.35', '2.5.29.17 critical'],
  usages: 1 | 4,
  purposes: ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'],
  isAuthority: false,
}

async function check(room: Room, row: Row, longestSeconds?: number): Promise<void> {
  const outcome = await room.ask(row.request)
  const { deviation } = row
  const wanted: Answer[] = deviation === undefined ? [row] : [{ ...row, ...deviation.expect }]
  if (deviation?.orAsRecorded === true) wanted.push(row)
  expect(wanted.map(({ code }) => code)).toContain(outcome.code)
  if (outcome.code !== 0) {
    expect(outcome).toEqual({ code: outcome.code, details: expect.stringMatching(/./) as unknown, chain: [] })
    return
  }
  const answer = wanted.find(({ code }) => code === 0)!
  const [leaf = ''] = outcome.chain
  const { validSeconds, ...is } = await describeLeaf(leaf)
  expect(is).toEqual({
    san: answer.san ?? ztunnelId,
    publicKey: answer.publicKey ?? 'id-ecPublicKey 256',
    subject: answer.subject ?? '',
    ...profile,
  })
  if (longestSeconds === undefined) expect(validSeconds).toBe(answer.validSeconds ?? 86_400)
  else
    expect(Math.abs(Number(validSeconds) - Math.min(longestSeconds, answer.validSeconds ?? 86_400))).toBeLessThan(120)
  expect(outcome.chain.map((element) => parsePem(element).length)).toEqual(answer.chain ?? [1, 1])
}

let compared = 0

describe('recorded answers of the certificate service', () => {
  afterAll(() => {
    console.warn(table === undefined ? 'no folder ca/: nothing was compared' : `${compared} calls compared`)
  })

  test('there are some, or another kind is asked for', () => {
    expect(folder === undefined || (table?.rows.length ?? 0) > 0).toBe(true)
  })

  if (table === undefined) return

  describe('with a root of its own', () => {
    const store = new MemoryRootStore()
    const authority = new SelfSignedAuthority({
      store,
      trustDomain: () => table.settings.trustDomain,
      clock: systemClock,
      log: silentLogger,
      isLeader: () => true,
    })
    const room = new Room(table, authority)
    beforeAll(() => room.open())
    afterAll(() => room.close())

    for (const row of table.rows) {
      test(row.case, async () => {
        await check(room, row)
        compared++
      })
    }

    test('the root is what the recorded one was', async () => {
      const x509 = await loadX509()
      const root = new x509.X509Certificate(store.stored!.certificate)
      const wanted = table.selfSignedRoot
      expect({
        issuer: root.issuer,
        subject: root.subject,
        lifetimeSeconds: (root.notAfter.getTime() - root.notBefore.getTime()) / 1000,
        usages: root.getExtension(x509.KeyUsagesExtension)?.usages,
        isAuthority: root.getExtension(x509.BasicConstraintsExtension)?.ca,
        aki: root.getExtension(x509.AuthorityKeyIdentifierExtension) !== null,
        ski: root.getExtension(x509.SubjectKeyIdentifierExtension) !== null,
        extensions: root.extensions.map(({ type, critical }) => `${type}${critical ? ' critical' : ''}`),
        bits: createPrivateKey(store.stored!.privateKey).asymmetricKeyDetails?.modulusLength,
        label: parsePem(store.stored!.privateKey).map(({ label }) => label),
      }).toEqual({
        issuer: wanted['issuer'],
        subject: wanted['subject'],
        lifetimeSeconds: wanted['lifetimeSeconds'],
        usages: x509.KeyUsageFlags.keyCertSign,
        isAuthority: true,
        aki: wanted['aki'],
        ski: wanted['ski'],
        extensions: ['2.5.29.15 critical', '2.5.29.19 critical', '2.5.29.14'],
        bits: 2048,
        label: ['RSA PRIVATE KEY'],
      })
    })

    test('the server shows a certificate with the recorded names', async () => {
      const { san, subject, extensions, isAuthority } = await describeLeaf(room.tls.cert)
      const names: readonly string[] = table.serverCertificate['san']
      expect({ san, subject, extensions, isAuthority }).toEqual({
        san: [...names, 'localhost', '127.0.0.1', '::1'].sort().join(','),
        subject: '',
        extensions: profile.extensions,
        isAuthority: false,
      })
    })
  })

  describe('with a plugged-in authority', () => {
    let room: Room
    let longestSeconds = 0
    beforeAll(async () => {
      const { texts, lifeSeconds } = await makeAuthorityOfThree()
      const bundle = parseBundle(texts)
      longestSeconds = lifeSeconds
      room = new Room(table, {
        bundle,
        crl: '',
        start: async () => {},
        check: async () => {},
        onChange: () => () => {},
      })
      await room.open()
    })
    afterAll(() => room.close())

    for (const row of table.pluggedIn.rows) {
      test(row.case, async () => {
        // The recording asked for another identity where the answer names one.
        const isOther = row.san !== ztunnelId && row.request['impersonate'] === undefined
        const request = isOther ? { ...row.request, impersonate: row.san } : row.request
        await check(room, { ...row, request }, longestSeconds)
        compared++
      })
    }
  })

  test(`the service is ${CERTIFICATE_SERVICE}`, () => {
    expect(loadCertificateService().CreateCertificate.path).toBe(`/${CERTIFICATE_SERVICE}/CreateCertificate`)
  })
})
