// SPDX-License-Identifier: Apache-2.0
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { createFileRootStore } from '../../src/ca/root-file.js'
import { createLayeredRootStore } from '../../src/ca/root-store.js'
import { createSecretRootStore } from '../../src/ca/root-secret.js'
import type { SecretAccess, StoredSecret } from '../../src/ca/root-secret.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import { formatRoots } from '../../src/ca/signing-bundle.js'
import { MemoryRootStore } from './material.js'

let folder = ''
let path = ''
const signal = new AbortController().signal

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'addressd-root-'))
  path = join(folder, 'deep', 'root.pem')
})
afterEach(() => rmSync(folder, { recursive: true }))

async function startWith(store: ConstructorParameters<typeof SelfSignedAuthority>[0]['store']): Promise<string> {
  const authority = new SelfSignedAuthority({
    store,
    trustDomain: () => 'cluster.local',
    clock: systemClock,
    log: silentLogger,
    isLeader: () => true,
    keyKind: 'P-256',
  })
  const stop = new AbortController()
  await authority.start(stop.signal)
  stop.abort()
  return formatRoots(authority.bundle!)
}

describe('a root in a file', () => {
  test('outlives a restart, and is readable for its owner alone', async () => {
    const first = await startWith(createFileRootStore(path))
    expect(await startWith(createFileRootStore(path))).toBe(first)
    expect([statSync(path).mode & 0o777, statSync(join(folder, 'deep')).mode & 0o777]).toEqual([0o600, 0o700])
    expect(readdirSync(join(folder, 'deep'))).toEqual(['root.pem'])
  })

  test('is one, however many start together', async () => {
    const roots = await Promise.all([1, 2, 3, 4].map(() => startWith(createFileRootStore(path))))
    expect(new Set(roots).size).toBe(1)
  })

  test('that others may read is refused with the command that mends it', async () => {
    await startWith(createFileRootStore(path))
    chmodSync(path, 0o640)
    await expect(createFileRootStore(path).read(signal)).rejects.toThrow(`chmod 600 ${path}`)
  })

  test('that holds something else is refused and left alone', async () => {
    path = join(folder, 'root.pem')
    writeFileSync(path, 'something', { mode: 0o600 })
    await expect(startWith(createFileRootStore(path))).rejects.toThrow(
      /does not hold one private key and a certificate/,
    )
  })

  test('is replaced only by who has seen its last version', async () => {
    await startWith(createFileRootStore(path))
    const store = createFileRootStore(path)
    const root = (await store.read(signal))!
    const updated = await store.update({ ...root, roots: root.certificate + root.certificate }, root.version, signal)
    expect(updated!.version).not.toBe(root.version)
    expect(await store.update(root, root.version, signal)).toBeUndefined()
    expect(await store.read(signal)).toEqual(updated)
  })
})

/** A Secret in memory. */
function memorySecret(name: string): SecretAccess & { stored: StoredSecret | undefined; type: string } {
  return {
    name,
    stored: undefined,
    type: '',
    read() {
      return Promise.resolve(this.stored)
    },
    create(type, values) {
      if (this.stored !== undefined) return Promise.resolve(undefined)
      this.type = type
      this.stored = { version: '1', values }
      return Promise.resolve(this.stored)
    },
    update(values, version) {
      if (this.stored?.version !== version) return Promise.resolve(undefined)
      this.stored = { version: `${version}+`, values: { ...this.stored.values, ...values } }
      return Promise.resolve(this.stored)
    },
  }
}

describe('a root in a Secret', () => {
  const none = { readPublished: () => Promise.resolve(undefined) }

  test('is laid out as others lay it out', async () => {
    const secret = memorySecret('istio-system/istio-ca-secret')
    const roots = await startWith(createSecretRootStore(secret, none))
    const values = secret.stored!.values
    expect([secret.type, Object.keys(values).sort(), values['cert-chain.pem'], values['key.pem']]).toEqual([
      'istio.io/ca-root',
      ['ca-cert.pem', 'ca-key.pem', 'cert-chain.pem', 'key.pem', 'root-cert.pem'],
      '',
      '',
    ])
    expect([values['ca-cert.pem'], values['root-cert.pem']]).toEqual([roots, roots])
  })

  test('without its key is refused, and nothing is written over it', async () => {
    const secret = memorySecret('istio-system/istio-ca-secret')
    secret.stored = { version: '7', values: { 'ca-cert.pem': 'x' } }
    await expect(startWith(createSecretRootStore(secret, none))).rejects.toThrow(
      /Secret istio-system\/istio-ca-secret lacks ca-cert.pem or ca-key.pem/,
    )
    expect(secret.stored.version).toBe('7')
  })

  test('is looked for in two places, made in the second, and updated where it was found', async () => {
    const [first, last] = [new MemoryRootStore(), new MemoryRootStore()]
    const both = createLayeredRootStore(first, last)
    await startWith(both)
    expect([first.writes, last.writes]).toEqual([0, 1])
    const inLast = (await both.read(signal))!
    await both.update(inLast, inLast.version, signal)
    expect([first.writes, last.writes]).toEqual([0, 2])
    first.stored = { ...inLast, version: '9' }
    const inFirst = (await both.read(signal))!
    await both.update(inFirst, inFirst.version, signal)
    expect([first.writes, last.writes]).toEqual([1, 2])
  })
})
