// SPDX-License-Identifier: Apache-2.0
// What TLS and certificates cost: the same clients once in the clear and once over TLS, on one server; and requests signed by our own authority.

import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as x509 from '@peculiar/x509'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import type { RootStore, RootTexts } from '../../src/ca/root-store.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import { Signer } from '../../src/ca/signer.js'
import { TestAuthority } from '../support/certificates.js'
import { XdsClient } from '../support/xds-client.js'
import { readCpuMs, startProgram } from './programs.js'
import { root, writeKubeconfig, type MeshApi } from './subjects.js'

/** CPU a client: milliseconds to connect, milliseconds for everything, microseconds for one pod's change. */
export interface StreamCosts {
  readonly connectMs: number
  readonly snapshotMs: number
  readonly pushUs: number
}

/** Starts an addressd with both ports and measures each with so many clients, one port after the other. */
export async function measureSecure(
  api: MeshApi,
  clients: number,
  changes: number,
): Promise<{ clear: StreamCosts; tls: StreamCosts }> {
  const authority = await TestAuthority.create()
  const { cert, key } = await authority.issue({ dns: ['localhost'] })
  const folder = mkdtempSync(join(tmpdir(), 'addressd-bench-tls-'))
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const ports = [
    '--grpcAddr',
    '127.0.0.1:0',
    '--secureGRPCAddr',
    '127.0.0.1:0',
    '--httpAddr',
    '',
    '--monitoringAddr',
    '',
  ]
  const shown = ['--tlsCertFile', write('cert.pem', cert), '--tlsKeyFile', write('key.pem', key)]
  const server = startProgram(
    'addressd',
    '/usr/bin/env',
    // Who calls is another figure's.
    ['XDS_AUTH=false', 'ENABLE_CA_SERVER=false', 'AMBIENT_ENABLE_STATUS=false', join(root, 'bin/addressd')].concat(
      ['serve', '--kubeconfig', writeKubeconfig(api)],
      ports,
      shown,
    ),
  )
  const ready = await server.line((line) => line.msg === 'ready')
  const measure = async (port: number, ca?: string): Promise<StreamCosts> => {
    const opened: XdsClient[] = []
    const cost = async (task: () => Promise<unknown>): Promise<number> => {
      const before = readCpuMs(server.pid)
      await task()
      await sleep(300)
      return readCpuMs(server.pid) - before
    }
    const everybody = async (count: number): Promise<void> => {
      await Promise.all(opened.map((client) => client.receivedAtLeast(count, 120_000)))
    }
    const connectMs = await cost(async () => {
      for (let i = 0; i < clients; i++) {
        const client = new XdsClient({
          port,
          forgetful: true,
          serverName: 'localhost',
          ...(ca === undefined ? {} : { ca }),
        })
        client.send({ type: 'Address', subscribe: ['*'], unsubscribe: ['*'] })
        opened.push(client)
      }
      await everybody(1)
    })
    const snapshotMs = await cost(async () => {
      for (const client of opened) client.send({ type: 'Address', subscribe: ['*'] })
      await everybody(2)
    })
    let received = 2
    const pushMs = await cost(async () => {
      for (let i = 0; i < changes; i++) {
        await api.change(1)
        await everybody(++received)
      }
    })
    for (const client of opened) client.destroy()
    await sleep(300)
    return {
      connectMs: connectMs / clients,
      snapshotMs: snapshotMs / clients,
      pushUs: (pushMs * 1000) / clients / changes,
    }
  }
  try {
    // Once for what is not compiled yet.
    await measure(Number(ready.grpc.port))
    await measure(Number(ready.secureGrpc.port), authority.cert)
    const clear = await measure(Number(ready.grpc.port))
    return { clear, tls: await measure(Number(ready.secureGrpc.port), authority.cert) }
  } finally {
    await server.stop()
  }
}

/** Milliseconds of CPU for one certificate: the request read and verified, the leaf signed by an RSA root of 2048 bits. In this process. */
export async function measureSigning(requests: number): Promise<number> {
  const end = new AbortController()
  const authority = new SelfSignedAuthority({
    store: new MemoryStore(),
    trustDomain: () => 'cluster.local',
    isLeader: () => true,
    clock: systemClock,
    log: silentLogger,
  })
  await authority.start(end.signal)
  const signer = new Signer({ authority, clock: systemClock })
  const request = await makeRequest()
  const order = { request, names: ['spiffe://cluster.local/ns/shop/sa/web'], ttlSeconds: 3600n }
  for (let i = 0; i < 50; i++) await signer.sign(order)
  const before = process.cpuUsage()
  for (let i = 0; i < requests; i++) await signer.sign(order)
  const { user, system } = process.cpuUsage(before)
  end.abort()
  return (user + system) / 1000 / requests
}

async function makeRequest(): Promise<string> {
  x509.cryptoProvider.set(webcrypto)
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const made = await x509.Pkcs10CertificateRequestGenerator.create({ keys, signingAlgorithm: algorithm })
  return made.toString('pem')
}

class MemoryStore implements RootStore {
  readonly name = 'memory'
  #root: RootTexts | undefined

  read() {
    return Promise.resolve(this.#root && { ...this.#root, version: '1' })
  }
  create(made: RootTexts) {
    this.#root = made
    return this.read()
  }
  update(made: RootTexts) {
    return this.create(made)
  }
}
