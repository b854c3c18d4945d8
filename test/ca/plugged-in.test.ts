// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { systemClock } from '../../src/base/clock.js'
import { PluggedInAuthority } from '../../src/ca/plugged-in.js'
import { chooseAuthority } from '../../src/ca/choose-authority.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import { FakeClock } from '../support/fake-clock.js'
import { MemoryRootStore, TextLog } from './material.js'
import { issueAuthority, makeCrl, toKeyPem, toPem } from './plugged-material.js'
import type { Issued } from './plugged-material.js'

let folder = ''
let stop = new AbortController()
const log = new TextLog()

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'addressd-ca-'))
  stop = new AbortController()
  log.lines.length = 0
})
afterEach(() => {
  stop.abort()
  rmSync(folder, { recursive: true })
})

const put = (files: Readonly<Record<string, string>>): void => {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
}

function putAuthority(signing: Issued, root: Issued, chain: readonly Issued[] = [signing]): void {
  put({
    'ca-cert.pem': toPem(signing),
    'ca-key.pem': toKeyPem(signing),
    'cert-chain.pem': chain.map(toPem).join(''),
    'root-cert.pem': toPem(root),
  })
}

const choose = (): ReturnType<typeof chooseAuthority> =>
  chooseAuthority({
    pluggedIn: { folder, clock: systemClock, log },
    selfSigned: { store: new MemoryRootStore(), trustDomain: () => 'cluster.local', isLeader: () => true },
    isFolderSelfSigned: true,
  })

/** Of the clock that moves by hand, so that only check() looks. */
async function start(options: { readonly isMultiRoot?: boolean } = {}): Promise<PluggedInAuthority> {
  const authority = new PluggedInAuthority({ folder, clock: new FakeClock(Date.now()), log, ...options })
  await authority.start(stop.signal)
  return authority
}

describe('a plugged-in authority', () => {
  test('is chosen when its files are there, in either layout; else there is one of our own', async () => {
    expect(await choose()).toBeInstanceOf(SelfSignedAuthority)
    const root = await issueAuthority('root', {})
    const signing = await issueAuthority('signing', { parent: root })
    putAuthority(signing, root)
    expect(await choose()).toBeInstanceOf(PluggedInAuthority)
    put({ 'istio-generated': '' })
    expect(await choose()).toBeInstanceOf(SelfSignedAuthority)
  })

  test('takes the layout of Kubernetes, whose chain ends in the root', async () => {
    const root = await issueAuthority('root', {})
    const signing = await issueAuthority('signing', { parent: root })
    put({ 'tls.crt': toPem(signing), 'tls.key': toKeyPem(signing), 'ca.crt': toPem(root) })
    const { bundle } = await start()
    expect([bundle!.chain, bundle!.roots].map((list) => list.map((pem) => pem.length))).toEqual([
      [toPem(signing), toPem(root)].map((pem) => pem.length),
      [toPem(root).length],
    ])
  })

  test('puts the signing certificate before a chain that lacks it', async () => {
    const root = await issueAuthority('root', {})
    const middle = await issueAuthority('middle', { parent: root })
    const signing = await issueAuthority('signing', { parent: middle })
    putAuthority(signing, root, [middle])
    const { bundle } = await start()
    expect(bundle!.chain.map((pem) => pem.replace(/\s/g, ''))).toEqual(
      [signing, middle].map((one) => toPem(one).replace(/\s/g, '')),
    )
  })

  test('that is incomplete stops the start and names what is missing, a lone root too', async () => {
    put({ 'root-cert.pem': 'x' })
    await expect(choose()).rejects.toThrow(/root-cert.pem without ca-cert.pem, ca-key.pem, cert-chain.pem/)
    rmSync(join(folder, 'root-cert.pem'))
    put({ 'tls.crt': 'x' })
    await expect(choose()).rejects.toThrow(/tls.crt without tls.key, ca.crt/)
  })

  const wrongs: readonly (readonly [string, () => Promise<void>, RegExp])[] = [
    [
      'whose key belongs to another certificate',
      async () => {
        const root = await issueAuthority('root', {})
        putAuthority(root, root)
        put({ 'ca-key.pem': toKeyPem(await issueAuthority('other', {})) })
      },
      /ca-key.pem does not belong to the certificate in .*ca-cert.pem/,
    ],
    [
      'whose certificate may not sign',
      async () => {
        const root = await issueAuthority('root', {})
        putAuthority(await issueAuthority('leaf', { parent: root, isAuthority: false }), root)
      },
      /ca-cert.pem may not sign others/,
    ],
    [
      'that does not lead to its root',
      async () => {
        const [root, other] = [await issueAuthority('root', {}), await issueAuthority('root', {})]
        putAuthority(await issueAuthority('signing', { parent: root }), other)
      },
      /does not lead to a root in .*root-cert.pem/,
    ],
    [
      'that has expired',
      async () => {
        const root = await issueAuthority('root', { nowMs: Date.now() - 10 * 86_400_000, days: 5 })
        putAuthority(root, root)
      },
      /ca-cert.pem, or a certificate above it, expired on/,
    ],
    [
      'whose key cannot be read',
      async () => {
        const root = await issueAuthority('root', {})
        putAuthority(root, root)
        put({ 'ca-key.pem': '-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n' })
      },
      /ca-key.pem holds no private key that can be read/,
    ],
    [
      'whose revocation lists do not cover its chain',
      async () => {
        const root = await issueAuthority('root', {})
        putAuthority(await issueAuthority('signing', { parent: root }), root)
        put({ 'ca-crl.pem': await makeCrl(root) })
      },
      /ca-crl.pem holds no revocation list signed by "CN=signing"/,
    ],
  ]
  test.each(wrongs)('%s is refused with the file and the fix', async (_what, prepare, words) => {
    await prepare()
    await expect(start()).rejects.toThrow(words)
  })

  test('gives out the revocation lists that cover its chain', async () => {
    const root = await issueAuthority('root', {})
    const signing = await issueAuthority('signing', { parent: root })
    putAuthority(signing, root)
    const crl = (await makeCrl(signing)) + (await makeCrl(root))
    put({ 'ca-crl.pem': crl })
    expect((await start()).crl).toBe(crl)
  })

  test('takes a new intermediate under the same root, and tells it', async () => {
    const root = await issueAuthority('root', {})
    putAuthority(await issueAuthority('one', { parent: root }), root)
    const authority = await start()
    let told = 0
    authority.onChange(() => told++)
    await authority.check()
    expect(told).toBe(0)
    putAuthority(await issueAuthority('two', { parent: root }), root)
    await authority.check()
    expect([told, authority.bundle!.certificate.subject]).toEqual([1, 'CN=two'])
  })

  test('keeps the last good files while the new ones do not fit, and says so once', async () => {
    const root = await issueAuthority('root', {})
    putAuthority(await issueAuthority('one', { parent: root }), root)
    const authority = await start()
    const two = await issueAuthority('two', { parent: root })
    put({ 'ca-cert.pem': toPem(two) })
    await authority.check()
    await authority.check()
    expect([authority.bundle!.certificate.subject, log.alarms.length]).toEqual(['CN=one', 1])
    putAuthority(two, root)
    await authority.check()
    expect(authority.bundle!.certificate.subject).toBe('CN=two')
    rmSync(join(folder, 'ca-key.pem'))
    await authority.check()
    expect(authority.bundle!.certificate.subject).toBe('CN=two')
  })

  test('does not exchange roots under a running mesh, and adds and removes them where that is allowed', async () => {
    const [one, two] = [await issueAuthority('one', {}), await issueAuthority('two', {})]
    putAuthority(one, one)
    const [strict, free] = [await start(), await start({ isMultiRoot: true })]
    putAuthority(two, two)
    await strict.check()
    await free.check()
    expect([strict, free].map((a) => a.bundle!.certificate.subject)).toEqual(['CN=one', 'CN=one'])
    expect(log.alarms.join('\n')).toMatch(/ISTIO_MULTIROOT_MESH(.|\n)*nothing to do with the old ones/)
    put({ 'root-cert.pem': toPem(one) + toPem(two) })
    await free.check()
    expect([free.bundle!.certificate.subject, free.bundle!.roots.length]).toEqual(['CN=two', 2])
    put({ 'root-cert.pem': toPem(two) })
    await free.check()
    expect(free.bundle!.roots.length).toBe(1)
  })

  test('sees by itself that files changed', async () => {
    const root = await issueAuthority('root', {})
    putAuthority(await issueAuthority('one', { parent: root }), root)
    const authority = new PluggedInAuthority({ folder, clock: systemClock, log, checkIntervalMs: 500 })
    await authority.start(stop.signal)
    const changed = new Promise<void>((resolve) => {
      authority.onChange(() => {
        if (authority.bundle!.certificate.subject === 'CN=two') resolve()
      })
    })
    putAuthority(await issueAuthority('two', { parent: root }), root)
    // Timers of the clock alone do not keep a process alive.
    const alive = setInterval(() => undefined, 1000)
    await changed
    clearInterval(alive)
  })

  test('never says anything of its key', async () => {
    const root = await issueAuthority('root', {})
    putAuthority(root, root)
    const authority = await start()
    put({ 'ca-key.pem': 'a secret' })
    await authority.check()
    expect(log.lines.join('\n')).not.toMatch(/a secret|PRIVATE/)
    expect(readFileSync(join(folder, 'ca-key.pem'), 'utf8')).toBe('a secret')
  })
})
