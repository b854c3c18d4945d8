// SPDX-License-Identifier: Apache-2.0
import { X509Certificate, createPrivateKey } from 'node:crypto'
import { connect } from 'node:tls'
import { describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import type { Authority } from '../../src/ca/authority.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import { ServerCertificate, selectServerNames } from '../../src/ca/server-certificate.js'
import { formatRoots, parseBundle } from '../../src/ca/signing-bundle.js'
import { createXdsServer } from '../../src/xds/server.js'
import { FakeClock, tick } from '../support/fake-clock.js'
import { ToyStore } from '../support/toy-store.js'
import { MemoryRootStore, TextLog } from './material.js'
import { makeAuthorityOfThree } from './plugged-material.js'

const day = 86_400_000
const names = selectServerNames({ namespace: 'istio-system', revision: '', isLocal: true })

describe('names of the server certificate', () => {
  test.each([
    [
      { namespace: 'istio-system', revision: 'default' },
      ['istio-pilot.istio-system.svc', 'istiod-remote.istio-system.svc', 'istiod.istio-system.svc'],
    ],
    [
      {
        namespace: 'mesh',
        revision: 'canary',
        discoveryAddress: 'istiod.example:15012',
        customHosts: ['b.example', ' a.example ', ''],
      },
      [
        'a.example',
        'b.example',
        'istio-pilot.mesh.svc',
        'istiod-canary.mesh.svc',
        'istiod-remote.mesh.svc',
        'istiod.example',
        'istiod.mesh.svc',
      ],
    ],
    [
      { namespace: 'x', revision: '', discoveryAddress: '[2001:db8::1]:15012', isLocal: true },
      ['127.0.0.1', '2001:db8::1', '::1', 'istio-pilot.x.svc', 'istiod-remote.x.svc', 'istiod.x.svc', 'localhost'],
    ],
  ])('of %j', (from, wanted) => {
    expect(selectServerNames(from)).toEqual(wanted)
  })
})

async function started(options: { readonly lifetimeMs?: number; readonly ttlMs?: number } = {}): Promise<{
  readonly clock: FakeClock
  readonly store: MemoryRootStore
  readonly authority: SelfSignedAuthority
  readonly certificate: ServerCertificate
  readonly log: TextLog
  pass(ms: number): Promise<void>
}> {
  const { lifetimeMs, ttlMs } = options
  const [clock, store, log] = [new FakeClock(), new MemoryRootStore(), new TextLog()]
  const authority = new SelfSignedAuthority({
    store,
    trustDomain: () => 'cluster.local',
    clock,
    log,
    isLeader: () => true,
    keyKind: 'P-256',
    checkIntervalMs: day,
    ...(lifetimeMs === undefined ? {} : { lifetimeMs }),
  })
  const { signal } = new AbortController()
  await authority.start(signal)
  const certificate = new ServerCertificate({ authority, clock, log, names, ...(ttlMs === undefined ? {} : { ttlMs }) })
  await certificate.start(signal)
  const pass = (ms: number): Promise<void> =>
    clock.advance(ms, async () => {
      for (let i = 0; i < 12; i++) await tick()
    })
  return { clock, store, authority, certificate, log, pass }
}

describe('the server certificate', () => {
  test('is a P-256 leaf of the authority with its key, and clients must come from the same roots', async () => {
    const { authority, certificate } = await started()
    const { cert, key, clientCa } = certificate.current!
    const leaf = new X509Certificate(cert)
    expect(leaf.checkPrivateKey(createPrivateKey(key))).toBe(true)
    expect(leaf.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' })
    expect(leaf.verify(authority.bundle!.certificate.publicKey)).toBe(true)
    expect(clientCa).toBe(formatRoots(authority.bundle!))
    expect(['localhost', 'istiod.istio-system.svc'].map((host) => leaf.checkHost(host))).toEqual([
      'localhost',
      'istiod.istio-system.svc',
    ])
    expect([leaf.checkIP('127.0.0.1'), leaf.checkHost('elsewhere')]).toEqual(['127.0.0.1', undefined])
  })

  test('is renewed when two thirds of its life are over, again and again', async () => {
    const room = await started({ ttlMs: 90 * day })
    const seen = [room.certificate.current!.cert]
    room.certificate.onChange(() => seen.push(room.certificate.current!.cert))
    await room.pass(59 * day)
    expect(seen.length).toBe(1)
    await room.pass(2 * day)
    expect(seen.length).toBe(2)
    await room.pass(600 * day)
    expect(seen.length).toBeGreaterThanOrEqual(11)
    expect(Date.parse(new X509Certificate(room.certificate.current!.cert).validTo)).toBeGreaterThan(room.clock.now())
    expect(new Set(seen).size).toBe(seen.length)
  })

  test('is made anew when the root is renewed, and listeners are told once', async () => {
    const room = await started({ lifetimeMs: 100 * day })
    const before = room.certificate.current!
    let told = 0
    room.certificate.onChange(() => told++)
    await room.pass(82 * day)
    expect(room.store.writes).toBe(2)
    const { clientCa, cert } = room.certificate.current!
    expect(clientCa).toBe(room.store.stored!.certificate)
    expect([clientCa === before.clientCa, cert === before.cert]).toEqual([false, false])
    // Once for its own age, two thirds of the old root's life, and once for the root.
    expect(told).toBe(2)
  })

  test('shows the intermediates', async () => {
    const { texts } = await makeAuthorityOfThree()
    const bundle = parseBundle(texts)
    const authority: Authority = {
      bundle,
      crl: '',
      start: () => Promise.resolve(),
      check: () => Promise.resolve(),
      onChange: () => () => undefined,
    }
    const certificate = new ServerCertificate({ authority, clock: systemClock, log: silentLogger, names })
    const { cert } = await certificate.start(new AbortController().signal)
    expect(cert.endsWith(bundle.chain.join(''))).toBe(true)
  })

  test('never shows its key to the log', async () => {
    const room = await started({ ttlMs: 9 * day })
    await room.pass(20 * day)
    expect(room.log.lines.join('\n')).not.toMatch(/PRIVATE|BEGIN/)
  })

  test('reaches a listener that is open, without a restart', async () => {
    const authority = new SelfSignedAuthority({
      store: new MemoryRootStore(),
      trustDomain: () => 'cluster.local',
      clock: systemClock,
      log: silentLogger,
      isLeader: () => true,
      keyKind: 'P-256',
    })
    const stop = new AbortController()
    await authority.start(stop.signal)
    const make = (): Promise<ServerCertificate['current']> =>
      new ServerCertificate({ authority, clock: systemClock, log: silentLogger, names }).start(stop.signal)
    const server = createXdsServer({
      store: new ToyStore(),
      clock: systemClock,
      log: silentLogger,
      registry: new Registry(),
    })
    try {
      const [first, second] = [(await make())!, (await make())!]
      const listener = await server.listen({ host: '127.0.0.1', port: 0, tls: first })
      const shown = (): Promise<string> =>
        new Promise((resolve, reject) => {
          const socket = connect({
            host: '127.0.0.1',
            port: listener.port,
            ca: first.clientCa,
            servername: 'localhost',
            ALPNProtocols: ['h2'],
          })
          socket.on('error', reject)
          socket.on('secureConnect', () => {
            resolve(socket.getPeerX509Certificate()!.serialNumber)
            socket.destroy()
          })
        })
      const before = await shown()
      listener.setTls(second)
      expect([before, await shown()]).toEqual([first, second].map(({ cert }) => new X509Certificate(cert).serialNumber))
    } finally {
      stop.abort()
      await server.close()
    }
  })
})
