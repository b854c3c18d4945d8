// SPDX-License-Identifier: Apache-2.0
import { X509Certificate } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import { SelfSignedAuthority } from '../../src/ca/self-signed.js'
import type { SelfSignedOptions } from '../../src/ca/self-signed.js'
import { Signer } from '../../src/ca/signer.js'
import { formatRoots } from '../../src/ca/signing-bundle.js'
import { FakeClock, tick } from '../support/fake-clock.js'
import { MemoryRootStore, TextLog, makeRequest } from './material.js'

const day = 86_400_000

class Room {
  readonly clock = new FakeClock()
  readonly store = new MemoryRootStore()
  readonly log = new TextLog()
  readonly stop = new AbortController()

  /** Lets time pass, and everything that it sets going come to its end. */
  async pass(ms: number): Promise<void> {
    const settle = async (): Promise<void> => {
      for (let i = 0; i < 12; i++) await tick()
    }
    await this.clock.advance(ms, settle)
  }

  replica(options: Partial<SelfSignedOptions> = {}): SelfSignedAuthority {
    return new SelfSignedAuthority({
      store: this.store,
      trustDomain: () => 'cluster.local',
      clock: this.clock,
      log: this.log,
      isLeader: () => true,
      keyKind: 'P-256',
      random: () => 0.5,
      ...options,
    })
  }

  async started(options: Partial<SelfSignedOptions> = {}): Promise<SelfSignedAuthority> {
    const replica = this.replica(options)
    await replica.start(this.stop.signal)
    return replica
  }
}

const rootsOf = (replica: SelfSignedAuthority): string => formatRoots(replica.bundle!)

describe('an authority of its own', () => {
  test('agrees with the replicas that start together on one root', async () => {
    const room = new Room()
    const replicas = [room.replica(), room.replica(), room.replica()]
    await Promise.all(replicas.map((replica) => replica.start(room.stop.signal)))
    expect(room.store.writes).toBe(1)
    expect(new Set(replicas.map(rootsOf))).toEqual(new Set([room.store.stored!.certificate]))
  })

  test('takes over the root that is stored', async () => {
    const room = new Room()
    const first = await room.started()
    const second = await room.started({ trustDomain: () => 'another.name' })
    expect([room.store.writes, rootsOf(second)]).toEqual([1, rootsOf(first)])
  })

  test('waits for the store at its start, for as long as it takes', async () => {
    const room = new Room()
    room.store.isAway = true
    const replica = room.replica()
    const started = replica.start(room.stop.signal)
    await room.pass(20 * 60_000)
    expect(replica.bundle).toBeUndefined()
    room.store.isAway = false
    await room.pass(60_000)
    await started
    expect(rootsOf(replica)).toBe(room.store.stored!.certificate)
  })

  test('makes no new root while proxies trust one that is not stored any more', async () => {
    const room = new Room()
    room.store.published = 'a root'
    const replica = room.replica()
    const started = replica.start(room.stop.signal)
    await room.pass(10 * 60_000)
    expect([room.store.writes, replica.bundle]).toEqual([0, undefined])
    expect(room.log.alarms[0]).toMatch(/would cut them off/)
    // A replica that still holds it writes it back.
    const other = new Room()
    const holder = await other.started()
    room.store.stored = other.store.stored
    await room.pass(60_000)
    await started
    expect(rootsOf(replica)).toBe(rootsOf(holder))
  })

  test('writes a root back that vanished from the store, and signs on with it', async () => {
    const room = new Room()
    const replica = await room.started()
    const before = rootsOf(replica)
    room.store.stored = undefined
    await replica.check()
    expect([room.store.stored!.certificate, rootsOf(replica)]).toEqual([before, before])
    expect(room.log.alarms).toHaveLength(1)
  })

  test('that does not lead keeps a vanished root in memory and writes nothing', async () => {
    const room = new Room()
    const replica = await room.started({ isLeader: () => false })
    const before = rootsOf(replica)
    room.store.stored = undefined
    await replica.check()
    expect([room.store.stored, rootsOf(replica)]).toEqual([undefined, before])
  })

  test('goes on signing while the store is away for ten minutes', async () => {
    const room = new Room()
    const replica = await room.started({ checkIntervalMs: 60_000 })
    const before = rootsOf(replica)
    room.store.isAway = true
    const signer = new Signer({ authority: replica, clock: room.clock })
    for (let minute = 0; minute < 10; minute++) {
      await room.pass(60_000)
      const chain = await signer.sign({ request: makeRequest(), names: ['spiffe://a/ns/b/sa/c'], ttlSeconds: 0n })
      expect(chain[1]).toBe(before)
    }
    expect(room.store.writes).toBe(1)
  })

  test('renews the root in time under its key, so that old and new leaves verify under old and new roots', async () => {
    const room = new Room()
    const options = { lifetimeMs: 100 * day, checkIntervalMs: day }
    const replica = await room.started(options)
    const follower = await room.started({ ...options, isLeader: () => false })
    const signer = new Signer({ authority: replica, clock: room.clock })
    const order = { request: makeRequest(), names: ['spiffe://a/ns/b/sa/c'], ttlSeconds: 0n }
    const old = await signer.sign(order)
    let told = 0
    follower.onChange(() => told++)
    await room.pass(79 * day)
    expect([room.store.writes, told]).toEqual([1, 0])
    await room.pass(3 * day)
    expect([room.store.writes, told]).toEqual([2, 1])
    expect(rootsOf(follower)).toBe(rootsOf(replica))
    const fresh = await signer.sign(order)
    expect(fresh[1]).not.toBe(old[1])
    const verdicts = [old, fresh].flatMap(([leaf]) =>
      [old, fresh].map(([, root]) => {
        const [one, issuer] = [new X509Certificate(leaf!), new X509Certificate(root!)]
        return one.checkIssued(issuer) && one.verify(issuer.publicKey)
      }),
    )
    expect(verdicts).toEqual([true, true, true, true])
    const life = new X509Certificate(rootsOf(replica))
    expect(Date.parse(life.validTo) - Date.parse(life.validFrom)).toBe(100 * day)
    // Ten more lives: never a gap.
    await room.pass(1000 * day)
    expect(replica.bundle!.notAfterMs).toBeGreaterThan(room.clock.now() + 19 * day)
  })

  test('renews under the name of the root, even when the trust domain is another by now', async () => {
    const room = new Room()
    await room.started({ lifetimeMs: 10 * day })
    await room.pass(9 * day)
    const later = await room.started({ lifetimeMs: 10 * day, trustDomain: () => 'another.name' })
    expect([later.bundle!.certificate.subject, room.store.writes]).toEqual(['O=cluster.local', 2])
  })

  test('takes over a root that somebody put into the store, and says that its key is another', async () => {
    const [room, other] = [new Room(), new Room()]
    const replica = await room.started()
    await other.started()
    room.store.stored = { ...other.store.stored!, version: 'theirs' }
    await replica.check()
    expect(rootsOf(replica)).toBe(other.store.stored!.certificate)
    expect(room.log.alarms.join()).toMatch(/another key/)
  })

  test('keeps its root when what is stored turns to nonsense', async () => {
    const room = new Room()
    const replica = await room.started()
    const before = rootsOf(replica)
    room.store.stored = { ...room.store.stored!, certificate: 'nonsense', version: 'x' }
    await replica.check()
    expect(rootsOf(replica)).toBe(before)
    expect(room.log.alarms.join()).toMatch(/ca-cert.pem of Secret istio-system\/istio-ca-secret holds no certificate/)
  })

  test('does not start with a stored root that cannot be used, and does not replace it', async () => {
    const room = new Room()
    await room.started()
    const [good, bad] = [room.store.stored!, new Room()]
    await bad.started()
    room.store.stored = { ...good, privateKey: bad.store.stored!.privateKey }
    await expect(room.started()).rejects.toBeInstanceOf(InvalidInput)
    expect(room.store.writes).toBe(1)
  })

  test('trusts further roots beside its own', async () => {
    const [room, other] = [new Room(), new Room()]
    const extraRoots = rootsOf(await other.started())
    const replica = await room.started({ extraRoots })
    expect(replica.bundle!.roots).toEqual([room.store.stored!.certificate, extraRoots])
  })

  test('never says anything of its key', async () => {
    const room = new Room()
    const replica = await room.started({ lifetimeMs: 10 * day })
    room.store.stored = undefined
    await replica.check()
    room.store.stored = { ...room.store.stored!, privateKey: 'nonsense with a secret in it', version: 'x' }
    await replica.check()
    const text = room.log.lines.join('\n')
    expect(text).not.toMatch(/PRIVATE KEY|secret in it|[A-Za-z0-9+/]{40}/)
  })
})
