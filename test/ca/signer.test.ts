// SPDX-License-Identifier: Apache-2.0
import { X509Certificate } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { silentLogger } from '../../src/base/log.js'
import type { Authority } from '../../src/ca/authority.js'
import { parsePem } from '../../src/ca/pem.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import { RequestRefused, Signer, SigningUnavailable } from '../../src/ca/signer.js'
import { parseBundle } from '../../src/ca/signing-bundle.js'
import { FakeClock } from '../support/fake-clock.js'
import { MemoryRootStore, makeRequest } from './material.js'
import { makeAuthorityOfThree } from './plugged-material.js'

const near = 'spiffe://cluster.local/ns/a/sa/near'
const order = { request: makeRequest(), names: [near], ttlSeconds: 0n }

async function startAuthority(clock: FakeClock, lifetimeMs?: number): Promise<Authority> {
  const authority = new SelfSignedAuthority({
    store: new MemoryRootStore(),
    trustDomain: () => 'cluster.local',
    clock,
    log: silentLogger,
    isLeader: () => false,
    keyKind: 'P-256',
    ...(lifetimeMs === undefined ? {} : { lifetimeMs }),
  })
  await authority.start(new AbortController().signal)
  return authority
}

const toSeconds = (clock: FakeClock, pem: string): readonly number[] => {
  const { validFrom, validTo } = new X509Certificate(pem)
  return [validFrom, validTo].map((time) => (Date.parse(time) - clock.now()) / 1000)
}

describe('signing', () => {
  test('gives the leaf and the root, and the leaf verifies', async () => {
    const clock = new FakeClock()
    const authority = await startAuthority(clock)
    const chain = await new Signer({ authority, clock }).sign(order)
    expect(chain.map((element) => parsePem(element).length)).toEqual([1, 1])
    const [leaf, root] = chain.map((element) => new X509Certificate(element))
    expect([leaf!.verify(root!.publicKey), leaf!.checkIssued(root!), leaf!.ca, leaf!.subjectAltName]).toEqual([
      true,
      true,
      false,
      `URI:${near}`,
    ])
    expect(toSeconds(clock, chain[0]!)).toEqual([-120, 86_400])
  })

  test.each([
    [0n, 86_400],
    [-1n, 86_400],
    [-(2n ** 63n), 86_400],
    [1n, 1],
    [7_776_000n, 7_776_000],
  ])('for %s seconds lasts %s seconds', async (ttlSeconds, seconds) => {
    const clock = new FakeClock()
    const signer = new Signer({ authority: await startAuthority(clock), clock })
    const [leaf] = await signer.sign({ ...order, ttlSeconds })
    expect(toSeconds(clock, leaf!)).toEqual([-120, seconds])
  })

  test.each([7_776_001n, 9_223_372_036n, 9_223_372_037n, 18_446_744_074n, 2n ** 63n - 1n])(
    'for %s seconds, more than the most, is refused and not shortened',
    async (ttlSeconds) => {
      const clock = new FakeClock()
      const refused = new Signer({ authority: await startAuthority(clock), clock }).sign({ ...order, ttlSeconds })
      await expect(refused).rejects.toBeInstanceOf(RequestRefused)
      await expect(refused).rejects.toMatchObject({ fault: 'TTL_ERROR' })
    },
  )

  test('never outlasts the authority, and fails once that has ended', async () => {
    const clock = new FakeClock()
    const signer = new Signer({ authority: await startAuthority(clock, 3_600_000), clock })
    expect(toSeconds(clock, (await signer.sign(order))[0]!)).toEqual([-120, 3_480])
    await clock.advance(3_480_000)
    const late = signer.sign(order)
    await expect(late).rejects.toBeInstanceOf(SigningUnavailable)
    await expect(late).rejects.toMatchObject({ fault: 'CERT_GEN_ERROR' })
  })

  test('before the authority has started is not ready', async () => {
    const clock = new FakeClock()
    const authority: Authority = {
      bundle: undefined,
      crl: '',
      start: () => Promise.resolve(),
      check: () => Promise.resolve(),
      onChange: () => () => undefined,
    }
    await expect(new Signer({ authority, clock }).sign(order)).rejects.toMatchObject({ fault: 'CA_NOT_READY' })
  })

  test('takes each name for what it is, and the first as common name where one is asked for and it is short', async () => {
    const clock = new FakeClock()
    const signer = new Signer({ authority: await startAuthority(clock), clock })
    const request = makeRequest({ subject: 'CN=whatever' })
    const sign = async (names: readonly string[]): Promise<readonly unknown[]> => {
      const { subject, subjectAltName } = new X509Certificate((await signer.sign({ ...order, request, names }))[0]!)
      return [subject, subjectAltName]
    }
    expect(await sign([near, 'a.b', '10.0.0.1', '2001:db8::1'])).toEqual([
      `CN=${near}`,
      `URI:${near}, DNS:a.b, IP Address:10.0.0.1, IP Address:2001:DB8:0:0:0:0:0:1`,
    ])
    const long = `spiffe://cluster.local/ns/${'n'.repeat(60)}/sa/s`
    expect(await sign([long])).toEqual([undefined, `URI:${long}`])
    await expect(sign(['bad name'])).rejects.toMatchObject({ fault: 'CERT_GEN_ERROR' })
  })

  test('gives serial numbers that are never equal', async () => {
    const clock = new FakeClock()
    const signer = new Signer({ authority: await startAuthority(clock), clock })
    const leaves = await Promise.all(Array.from({ length: 50 }, () => signer.sign(order)))
    expect(new Set(leaves.map(([leaf]) => new X509Certificate(leaf!).serialNumber)).size).toBe(50)
  })

  test('by an intermediate gives each certificate of the chain an element, and all verify upwards', async () => {
    const { texts } = await makeAuthorityOfThree()
    const bundle = parseBundle(texts)
    const clock = new FakeClock(Date.now())
    const authority: Authority = {
      bundle,
      crl: '',
      start: () => Promise.resolve(),
      check: () => Promise.resolve(),
      onChange: () => () => undefined,
    }
    const chain = (await new Signer({ authority, clock }).sign({ ...order, ttlSeconds: 7_776_000n })).map(
      (element) => new X509Certificate(element),
    )
    expect(chain.length).toBe(5)
    const issued = chain
      .slice(0, 3)
      .map((one, i) => one.checkIssued(chain[i + 1]!) && one.verify(chain[i + 1]!.publicKey))
    expect(issued).toEqual([true, true, true])
    expect(Date.parse(chain[0]!.validTo)).toBe(bundle.notAfterMs)
  })
})
