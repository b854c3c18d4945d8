// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { createXdsServer } from '../../src/xds/server.js'
import { XdsClient } from '../support/xds-client.js'
import { ToyStore } from './toy-store.js'

/** A certificate for localhost, signed by itself; undefined where the machine has no openssl. */
function makeCertificate(tool: string): { readonly key: string; readonly cert: string } | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'addressd-tls-'))
  try {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
    args.push('-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', cert)
    execFileSync(tool, args, { stdio: 'ignore' })
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
  } catch {
    // No openssl, or one that is too old: the test says so.
    return undefined
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const certificate = makeCertificate('openssl')
if (certificate === undefined) console.warn('skipped: no openssl on this machine, TLS is not tried')
const maybe = certificate === undefined ? test.skip : test

describe('a discovery server over TLS', () => {
  maybe('serves a large snapshot and pushes, beside one in the clear', async () => {
    const store = new ToyStore()
    store.commit(Array.from({ length: 300 }, (_, i) => ({ name: `pod/${i}`, content: 'x'.repeat(5000) })))
    const server = createXdsServer({ store, clock: systemClock, log: silentLogger, registry: new Registry() })
    const { key, cert } = certificate!
    const secure = await server.listen({ host: '127.0.0.1', port: 0, tls: { key, cert, minVersion: 'TLSv1.3' } })
    const clear = await server.listen({ host: '127.0.0.1', port: 0 })
    const clients = [new XdsClient({ port: secure.port, ca: cert }), new XdsClient({ port: clear.port })]
    try {
      for (const client of clients) client.send({ type: 'Address' })
      for (const client of clients) await client.receivedAtLeast(1)
      store.commit([{ name: 'pod/1', content: 'new' }])
      for (const client of clients) await client.receivedAtLeast(2)
      expect(clients.map((c) => c.responses.map((r) => r.resources.length))).toEqual([
        [300, 1],
        [300, 1],
      ])
    } finally {
      for (const client of clients) client.destroy()
      await server.close()
    }
  })
})
