// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { Retryable } from '../../src/base/errors.js'
import type { Authority } from '../../src/ca/authority.js'
import { Distribution } from '../../src/ca/distribution.js'
import type {
  ConfigMapAccess,
  DistributionOptions,
  MapWrite,
  MapWriteOutcome,
  StoredMap,
} from '../../src/ca/distribution.js'
import { parseBundle } from '../../src/ca/signing-bundle.js'
import type { SigningBundle } from '../../src/ca/signing-bundle.js'
import { FakeClock, tick } from '../support/fake-clock.js'
import { TextLog } from './material.js'
import { issueAuthority, toKeyPem, toPem } from './plugged-material.js'

async function makeBundle(): Promise<SigningBundle> {
  const root = await issueAuthority('root', {})
  const text = (name: string, content: string): { name: string; text: string } => ({ name, text: content })
  return parseBundle({
    certificate: text('c', toPem(root)),
    key: text('k', toKeyPem(root)),
    chain: text('h', ''),
    roots: text('r', toPem(root)),
  })
}

/** ConfigMaps in memory, whose changes are told to the distribution as a watch would. */
class Maps implements ConfigMapAccess {
  readonly all = new Map<string, { version: string; values: Record<string, string>; labels: Record<string, string> }>()
  readonly writes: string[] = []
  readonly forbidden = new Set<string>()
  failures = 0
  conflicts = 0
  onChange: (namespace: string, name: string) => void = () => undefined
  #version = 0

  async #answer<T>(make: () => T): Promise<T> {
    await tick()
    if (this.failures > 0) {
      this.failures--
      throw new Retryable('the API server is away')
    }
    return make()
  }

  read(namespace: string, name: string): Promise<StoredMap | undefined> {
    return this.#answer(() => this.all.get(`${namespace}/${name}`))
  }

  create(map: MapWrite, labels: Readonly<Record<string, string>>): Promise<MapWriteOutcome> {
    return this.#write(map, 'create', () => ({ values: {}, labels: { ...labels } }))
  }

  update(map: MapWrite): Promise<MapWriteOutcome> {
    return this.#write(map, 'update', (key) => this.all.get(key)!)
  }

  #write(
    { namespace, name, values }: MapWrite,
    verb: string,
    base: (key: string) => { values: Record<string, string>; labels: Record<string, string> },
  ): Promise<MapWriteOutcome> {
    return this.#answer(() => {
      const key = `${namespace}/${name}`
      if (this.forbidden.has(namespace)) return 'skip'
      if (this.conflicts > 0) {
        this.conflicts--
        return 'again'
      }
      this.writes.push(`${verb} ${key}`)
      const { values: old, labels } = base(key)
      this.all.set(key, { version: `${++this.#version}`, values: { ...old, ...values }, labels })
      this.onChange(namespace, name)
      return 'written'
    })
  }
}

class Room {
  readonly clock = new FakeClock()
  readonly maps = new Maps()
  readonly log = new TextLog()
  readonly stop = new AbortController()
  readonly listeners = new Set<() => void>()
  bundle: SigningBundle | undefined
  crl = ''
  readonly distribution: Distribution

  constructor(options: Partial<DistributionOptions> = {}) {
    const getBundle = (): SigningBundle | undefined => this.bundle
    const getCrl = (): string => this.crl
    const authority: Authority = {
      get bundle() {
        return getBundle()
      },
      get crl() {
        return getCrl()
      },
      start: () => Promise.resolve(),
      check: () => Promise.resolve(),
      onChange: (listener) => {
        this.listeners.add(listener)
        return () => void this.listeners.delete(listener)
      },
    }
    this.distribution = new Distribution({ authority, maps: this.maps, clock: this.clock, log: this.log, ...options })
    this.maps.onChange = (namespace, name) => this.distribution.mapChanged(namespace, name)
  }

  async settle(): Promise<readonly string[]> {
    do for (let i = 0; i < 30; i++) await tick()
    while (this.distribution.pending > 0 && this.clock.pending === 0)
    return this.maps.writes.splice(0).sort()
  }
}

async function started(namespaces: readonly string[], options: Partial<DistributionOptions> = {}): Promise<Room> {
  const room = new Room(options)
  room.bundle = await makeBundle()
  for (const namespace of namespaces) room.distribution.addNamespace(namespace)
  room.distribution.start(room.stop.signal)
  return room
}

const root = 'istio-ca-root-cert'
const crl = 'istio-ca-crl'

describe('roots in every namespace', () => {
  test('are written with their label, and empty revocation lists beside them, save where nobody needs them', async () => {
    const room = await started(['a', 'kube-system', 'kube-public', 'kube-node-lease', 'local-path-storage'])
    expect(await room.settle()).toEqual(
      ['a', 'kube-system'].flatMap((namespace) => [`create ${namespace}/${crl}`, `create ${namespace}/${root}`]).sort(),
    )
    expect(room.maps.all.get(`a/${root}`)).toEqual({
      version: expect.any(String) as unknown,
      values: { 'root-cert.pem': room.bundle!.roots.join('') },
      labels: { 'istio.io/config': 'true' },
    })
    expect(room.maps.all.get(`a/${crl}`)!.values).toEqual({ 'ca-crl.pem': '' })
    expect(room.distribution.pending).toBe(0)
  })

  test('are written nowhere before this replica leads, and no more when it does not', async () => {
    const room = new Room()
    room.bundle = await makeBundle()
    room.distribution.addNamespace('a')
    expect(await room.settle()).toEqual([])
    room.distribution.start(room.stop.signal)
    expect((await room.settle()).length).toBe(2)
    room.stop.abort()
    room.distribution.addNamespace('b')
    expect([await room.settle(), room.listeners.size]).toEqual([[], 0])
    room.distribution.start(new AbortController().signal)
    expect(await room.settle()).toEqual([`create b/${crl}`, `create b/${root}`])
  })

  test('are put right when somebody edits them; other keys and labels stay as they are', async () => {
    const room = await started(['a'])
    await room.settle()
    const map = room.maps.all.get(`a/${root}`)!
    room.maps.all.set(`a/${root}`, { ...map, values: { 'root-cert.pem': 'x', other: 'y' }, labels: {} })
    room.distribution.mapChanged('a', root)
    expect(await room.settle()).toEqual([`update a/${root}`])
    expect(room.maps.all.get(`a/${root}`)).toMatchObject({
      values: { 'root-cert.pem': room.bundle!.roots.join(''), other: 'y' },
      labels: {},
    })
    room.maps.all.get(`a/${root}`)!.values['other'] = 'z'
    room.distribution.mapChanged('a', root)
    room.distribution.mapChanged('a', 'something-else')
    expect(await room.settle()).toEqual([])
  })

  test('come back when they are deleted', async () => {
    const room = await started(['a'])
    await room.settle()
    room.maps.all.delete(`a/${root}`)
    room.distribution.mapChanged('a', root)
    expect(await room.settle()).toEqual([`create a/${root}`])
  })

  test('reach a new namespace, and none that is gone', async () => {
    const room = await started(['a'])
    await room.settle()
    room.distribution.addNamespace('b')
    room.distribution.removeNamespace('a')
    room.distribution.mapChanged('a', root)
    expect(await room.settle()).toEqual([`create b/${crl}`, `create b/${root}`])
  })

  test('follow the authority', async () => {
    const room = await started(['a', 'b'])
    await room.settle()
    room.bundle = await makeBundle()
    for (const listener of room.listeners) listener()
    expect(await room.settle()).toEqual([`update a/${root}`, `update b/${root}`])
    room.crl = 'revoked'
    for (const listener of room.listeners) listener()
    expect(await room.settle()).toEqual([`update a/${crl}`, `update b/${crl}`])
  })

  test('are tried again with growing pauses while the API server is away, for as long as it is', async () => {
    const room = await started(['a'], { hasCrl: false, random: () => 0 })
    room.maps.failures = 10
    expect(await room.settle()).toEqual([])
    await room.clock.advance(60 * 60_000, async () => {
      for (let i = 0; i < 10; i++) await tick()
    })
    expect(await room.settle()).toEqual([`create a/${root}`])
    const pauses = room.log.alarms.map((line) => Number(/"retryMs":(\d+)/.exec(line)?.[1]))
    expect(pauses).toEqual([10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120])
  })

  test('are read again after a conflict, and passed over where we may not write', async () => {
    const room = await started(['a', 'locked'], { hasCrl: false })
    room.maps.forbidden.add('locked')
    room.maps.conflicts = 1
    await room.settle()
    await room.clock.advance(1000, async () => {
      for (let i = 0; i < 10; i++) await tick()
    })
    expect([...room.maps.all.keys()]).toEqual([`a/${root}`])
    expect([room.log.alarms.length, room.distribution.pending]).toEqual([1, 0])
  })
})
