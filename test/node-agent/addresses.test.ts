// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import type { Answered } from '../../src/node-agent/addresses.js'
import { startBareServer } from './addresses/bare-server.js'
import {
  createMesh,
  lone,
  readMetric,
  shiftingClock,
  startNode,
  startPlane,
  until,
  web,
  webA,
  webB,
  type Node,
} from './addresses/room.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import { TestAuthority } from '../support/certificates.js'
import { ip, makeWorkload } from '../support/toy-store.js'
import { CollectedLog } from '../xds/collected-log.js'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

async function connect(node: Node): Promise<Node> {
  open.push(() => node.stop())
  await until(() => node.addresses.book.connected, 'the control plane to answer')
  return node
}

const names = ({ answer }: Answered): unknown[] =>
  answer.found.map((one) => [
    one.workload?.uid ?? `${one.service?.namespace ?? ''}/${one.service?.hostname ?? ''}`,
    one.by,
    ...(one.service?.members ?? []).map(({ name }) => name),
  ])

describe('beside a control plane', () => {
  test("the node's own workloads come unasked, and what is looked up comes when asked", async () => {
    const plane = await startPlane(createMesh())
    open.push(() => plane.kill())
    const { addresses } = await connect(startNode(plane.port))
    const { book } = addresses
    expect(book.sizes).toEqual({ own: 1, others: 0, found: 0, nobody: 0 })
    const asked = ['10.0.0.9', '/10.0.0.9', '10.96.0.10', 'web.shop', 'shop/web-a', lone.uid, '172.16.3.4', '10.0.0.77']
    const answers = await Promise.all(asked.map((question) => book.lookup(question)))
    expect(answers.map((one) => [one.standing, ...names(one)])).toEqual([
      ['current', [lone.uid, 'address /10.0.0.9']],
      ['current', [lone.uid, 'address /10.0.0.9']],
      ['current', ['shop/web.shop.svc.cluster.local', 'address /10.96.0.10', 'web-a', 'web-b']],
      ['current', ['shop/web.shop.svc.cluster.local', 'short name web.shop', 'web-a', 'web-b']],
      ['current', [webA.uid, 'name shop/web-a']],
      ['current', [lone.uid, `uid ${lone.uid}`]],
      ['current', ['edge/legacy.example.com', 'range /172.16.0.0/12']],
      ['current'],
    ])
    expect(book.received).toMatchObject({ rejected: 0, removals: 0 })
  })

  test('what is no question is refused by the same words everywhere', async () => {
    const plane = await startPlane(createMesh())
    open.push(() => plane.kill())
    const { addresses } = await connect(startNode(plane.port))
    await expect(addresses.book.lookup('10.0.0.300')).rejects.toThrow(InvalidInput)
    await expect(addresses.book.lookup('10.0.0.300')).rejects.toThrow('"10.0.0.300" is not a question')
  })

  test('what was looked up follows changes: members join, addresses move, pods go and come', async () => {
    const store = createMesh()
    const plane = await startPlane(store)
    open.push(() => plane.kill())
    const { addresses } = await connect(startNode(plane.port))
    const { book } = addresses
    const seen = async (question: string): Promise<unknown[]> => names(await book.lookup(question))
    await seen('10.96.0.10')
    await seen('10.0.0.9')
    const { resources, removals } = book.received
    store.put({ ...webB, name: 'web-c', uid: 'Kubernetes//Pod/shop/web-c', addresses: [ip('10.0.0.3')] })
    store.remove(lone.uid)
    await until(() => book.received.resources > resources && book.received.removals > removals, 'both changes')
    expect(await seen('10.96.0.10')).toEqual([[expect.anything(), 'address /10.96.0.10', 'web-a', 'web-b', 'web-c']])
    expect(await seen('10.0.0.9')).toEqual([])
    expect(book.sizes).toEqual({ own: 1, others: 3, found: 1, nobody: 1 })
    const moved = { ...webA, addresses: [ip('10.0.0.9')] }
    store.put(moved)
    await until(() => book.sizes.nobody === 0, 'the address to be somebody’s')
    expect(await seen('10.0.0.9')).toEqual([[webA.uid, 'address /10.0.0.9']])
  })

  test('a workload that leaves the node is its own no longer, and whoever listens is told', async () => {
    const store = createMesh()
    const plane = await startPlane(store)
    open.push(() => plane.kill())
    const node = startNode(plane.port)
    const told: unknown[] = []
    node.addresses.book.onWorkload((uid, workload) => told.push([uid, workload?.tunnelProtocol]))
    await connect(node)
    store.put({ ...webA, tunnelProtocol: 0 })
    await until(() => told.length === 2, 'the change')
    store.put({ ...webA, node: 'node-3' })
    await until(() => told.length === 3, 'the move')
    store.put(webA)
    await until(() => told.length === 4, 'the return')
    expect(told).toEqual([
      [webA.uid, 1],
      [webA.uid, 0],
      [webA.uid, undefined],
      [webA.uid, 1],
    ])
    expect(node.addresses.book.sizes.own).toBe(1)
  })

  test('ten thousand questions at once are one request, and what is kept stays within its bound', async () => {
    const store = createMesh()
    const pods = Array.from({ length: 10_000 }, (_, i) =>
      makeWorkload({ name: `p-${i}`, node: 'node-9', addresses: [ip(`10.1.${i >> 8}.${i & 255}`)] }),
    )
    store.put(...pods)
    const plane = await startPlane(store)
    open.push(() => plane.kill())
    const { addresses } = await connect(startNode(plane.port, { cacheEntries: 20_000, answerMs: 60_000 }))
    const first = await Promise.all(pods.map(({ uid }) => addresses.book.lookup(uid)))
    expect(first.filter((one) => one.standing === 'current' && one.answer.found.length === 1)).toHaveLength(10_000)
    expect(addresses.book.received.responses).toBe(2)
    expect(addresses.book.sizes).toEqual({ own: 1, others: 10_000, found: 10_000, nobody: 0 })

    const small = await connect(startNode(plane.port, { cacheEntries: 100 }))
    for (let i = 0; i < 2_000; i += 50) {
      const some = pods.slice(i, i + 50)
      const answers = await Promise.all(some.map(({ uid }) => small.addresses.book.lookup(uid)))
      expect(answers.flatMap(names).map((one) => (one as string[])[0])).toEqual(some.map(({ uid }) => uid))
    }
    const { own, others, found } = small.addresses.book.sizes
    expect([own, others + found]).toEqual([1, 100])
    // What was let go of was given back: the control plane does not tell of it any more.
    const { connectionId } = plane.server.clients().at(-1)!
    const told = (): number => plane.server.held(connectionId)?.get(ADDRESS_TYPE)?.length ?? 0
    await until(() => told() === own + others, 'the names to be given back')
  }, 60_000)
})

describe('while the control plane is away', () => {
  test('answers come from before, with their age; what was never asked is not known', async () => {
    const clock = shiftingClock()
    const plane = await startPlane(createMesh())
    const { addresses } = await connect(startNode(plane.port, { clock }))
    const { book } = addresses
    await book.lookup('10.96.0.10')
    await book.lookup('10.0.0.77')
    await plane.kill()
    await until(() => !book.connected, 'the loss to be noticed')
    const lostAt = book.lastSeen
    clock.shift(3_600_000)
    const answers = await Promise.all(
      ['10.96.0.10', '10.0.0.1', '10.0.0.77', '10.0.0.9'].map((question) => book.lookup(question)),
    )
    expect(answers.map((one) => [one.standing, one.answer.found.length])).toEqual([
      ['stale', 1],
      ['stale', 1],
      ['stale', 0],
      ['unknown', 0],
    ])
    for (const { ageMs, lastSeenMs } of answers) {
      expect(lastSeenMs).toBe(lostAt)
      expect(Math.floor((ageMs ?? 0) / 60_000)).toBe(60)
    }
  })

  test('when it comes back with the same versions nothing is sent again', async () => {
    const store = createMesh()
    let plane = await startPlane(store)
    const { addresses, registry } = await connect(startNode(plane.port))
    const { book } = addresses
    for (const question of ['10.96.0.10', 'shop/lone', '10.0.0.77', '172.16.3.4']) await book.lookup(question)
    const before = { ...book.received }
    await plane.kill()
    await until(() => !book.connected, 'the loss to be noticed')
    plane = await startPlane(store, { port: plane.port })
    open.push(() => plane.kill())
    await until(() => book.connected, 'the return')
    const { responses, ...rest } = before
    expect(book.received).toEqual({ ...rest, responses: responses + 1 })
    expect(await readMetric(registry, 'addressd_node_received_addresses', { kind: 'resources' })).toBe(before.resources)
    expect(names(await book.lookup('10.96.0.10'))).toEqual([
      [expect.anything(), 'address /10.96.0.10', 'web-a', 'web-b'],
    ])
    // What changes from now on is told as before.
    store.put({ ...webB, status: 1 })
    await until(() => book.received.resources === before.resources + 1, 'the change')
  })

  test('what changed and what went meanwhile is told at its return, and nothing else', async () => {
    const store = createMesh()
    let plane = await startPlane(store)
    const { addresses } = await connect(startNode(plane.port))
    const { book } = addresses
    for (const question of ['10.96.0.10', '10.0.0.9']) await book.lookup(question)
    const before = { ...book.received }
    await plane.kill()
    store.put({ ...webB, status: 1 })
    store.remove(lone.uid)
    plane = await startPlane(store, { port: plane.port })
    open.push(() => plane.kill())
    await until(() => book.connected && book.received.responses > before.responses, 'the return')
    expect(book.received).toMatchObject({ resources: before.resources + 1, removals: before.removals + 1 })
    const [answer] = (await book.lookup('10.96.0.10')).answer.found
    expect([answer?.service?.healthyMembers, answer?.service?.membersTotal]).toEqual([1, 2])
    expect(names(await book.lookup('10.0.0.9'))).toEqual([])
  })

  test('before it was ever reached nothing is known, and a question does not wait', async () => {
    const node = startNode(1)
    open.push(() => node.stop())
    expect(await node.addresses.book.lookup('10.0.0.1')).toMatchObject({
      standing: 'unknown',
      ageMs: undefined,
      lastSeenMs: undefined,
    })
    expect(node.addresses.book.confirmHbone({ namespace: 'shop', name: 'web-a' })).toEqual({
      isServed: false,
      says: 'nothing: it was never reached',
    })
  })
})

describe('a control plane that misbehaves', () => {
  test('one resource that cannot be read is rejected by name, and the others count', async () => {
    const bare = await startBareServer([
      { name: 'Kubernetes//Pod/shop/bad', body: Buffer.from([0xff, 0xff]) },
      { name: webA.uid, workload: webA },
    ])
    open.push(() => bare.close())
    const { addresses } = await connect(startNode(bare.port))
    expect(addresses.book.sizes.own).toBe(1)
    expect(addresses.book.received.rejected).toBe(1)
    await until(() => bare.rejections.length === 1, 'the rejection')
    expect(bare.rejections[0]).toMatch(/^Kubernetes\/\/Pod\/shop\/bad: /)
  })

  test('a message that is none ends the stream, is said in the log, and the next try is another connection', async () => {
    const log = new CollectedLog()
    const bare = await startBareServer('garbage')
    open.push(() => bare.close())
    const node = startNode(bare.port, { log })
    open.push(() => node.stop())
    await until(() => bare.streams >= 2, 'the second try')
    expect(JSON.stringify(log)).toContain('it sent what cannot be read')
    expect(node.addresses.book.connected).toBe(false)
  })

  test('one that takes the stream and says nothing is given up on', async () => {
    const sockets: Socket[] = []
    const mute = createServer((socket) => sockets.push(socket))
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
    open.push(() => {
      for (const socket of sockets) socket.destroy()
      mute.close()
    })
    const node = startNode((mute.address() as { port: number }).port)
    await until(() => sockets.length > 0, 'a connection')
    await node.stop()
    expect((await node.addresses.book.lookup('10.0.0.1')).standing).toBe('unknown')
  })
})

describe('over TLS', () => {
  test('it shows its token, read anew at every connection, and trusts the roots of its file alone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'addressd-node-'))
    open.push(() => rmSync(folder, { recursive: true }))
    const [tokenFile, rootFile] = [join(folder, 'token'), join(folder, 'root.pem')]
    const authority = await TestAuthority.create()
    const stranger = await TestAuthority.create('stranger')
    const leaf = await authority.issue({ dns: ['localhost'] })
    const shown: string[] = []
    const bare = await startBareServer([{ name: webA.uid, workload: webA }], {
      leaf,
      onToken: (token) => shown.push(token),
    })
    open.push(() => bare.close())
    writeFileSync(tokenFile, 'first\n')
    writeFileSync(rootFile, stranger.cert)
    const log = new CollectedLog()
    const target = `https://localhost:${bare.port}`
    const node = startNode(0, { target, isPlaintext: false, tokenFile, rootFile, log })
    open.push(() => node.stop())
    await until(() => /certificate|issuer/.test(JSON.stringify(log)), 'a refusal')
    expect(node.addresses.book.connected).toBe(false)
    writeFileSync(rootFile, authority.cert)
    await until(() => node.addresses.book.connected, 'the control plane to answer')
    writeFileSync(tokenFile, 'second')
    bare.cut()
    await until(() => shown.length === 2 && node.addresses.book.connected, 'the return')
    expect(shown).toEqual(['Bearer first Kubernetes', 'Bearer second Kubernetes'])
  })

  test('a real server of ours with a certificate of ours is asked in the same way', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'addressd-node-'))
    open.push(() => rmSync(folder, { recursive: true }))
    const authority = await TestAuthority.create()
    const { cert, key } = await authority.issue({ dns: ['localhost'] })
    writeFileSync(join(folder, 'root.pem'), authority.cert)
    const plane = await startPlane(createMesh(), { tls: { cert, key, minVersion: 'TLSv1.3' } })
    open.push(() => plane.kill())
    const target = `localhost:${plane.port}`
    const { addresses } = await connect(
      startNode(0, { target, isPlaintext: false, rootFile: join(folder, 'root.pem') }),
    )
    expect(names(await addresses.book.lookup('10.96.0.10'))).toHaveLength(1)
    expect(web.addresses).toHaveLength(1)
  })

  test.each([
    ['istiod.istio-system.svc:15010', 'only a control plane on this machine is asked in plaintext'],
    ['10.0.0.1:15010', 'only a control plane on this machine'],
    ['nowhere', 'is not an address of a control plane'],
    ['localhost:0', 'is not an address of a control plane'],
    ['http://10.0.0.1:15010', 'only a control plane on this machine'],
    ['ftp://localhost:15010', 'is not an address of a control plane'],
  ])('plaintext to %s is refused', (target, words) => {
    expect(() => startNode(0, { target })).toThrow(words)
  })
})
