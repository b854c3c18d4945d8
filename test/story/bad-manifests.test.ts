// SPDX-License-Identifier: Apache-2.0
// Manifests that nobody should write: each is named in the log with its file, and its object where it has one; what is served stays exactly as it was.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onlyTheBeat, podManifest, Room, until } from './room.js'

const room = new Room()
beforeAll(async () => {
  await room.open()
})
afterAll(async () => {
  await room.close()
})

const service = (name: string, spec: string): string =>
  `apiVersion: v1\nkind: Service\nmetadata: { name: ${name}, namespace: bad }\nspec: ${spec}\n`
const entry = (name: string, spec: string): string =>
  `apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: ${name}, namespace: bad }\nspec: ${spec}\n`
const isLeftOut = 'a manifest is wrong here; this is left out'

/** Waits for the complaint about a file; gives object and reason. */
async function complaint(file: string): Promise<{ object: unknown; reason: unknown; message: string }> {
  await until(() => room.complaints(file).length > 0, `a complaint about ${file}`)
  const [record, ...more] = room.complaints(file)
  expect(more).toEqual([])
  return { object: record?.fields['object'], reason: record?.fields['reason'], message: record?.message ?? '' }
}

describe('a value of a wrong type is left out, with its object and field', () => {
  test.each([
    ['a text for a map', service('a', 'hello'), 'Service bad/a', 'spec must be an object, it is a string'],
    ['a list for a map', service('a', '{ selector: [x] }'), 'Service bad/a', 'spec.selector must be an object'],
    ['a map for a list', service('a', '{ ports: { port: 80 } }'), 'Service bad/a', 'spec.ports must be a list'],
    ['a number as text', service('a', '{ ports: [{ port: "80" }] }'), 'Service bad/a', 'must be a whole number'],
    ['a port below 0', service('a', '{ ports: [{ port: -1 }] }'), 'Service bad/a', 'from 0 to 65535, it is -1'],
    ['a port above 65535', entry('a', '{ ports: [{ number: 70000 }] }'), 'ServiceEntry bad/a', 'it is 70000'],
    ['a text for metadata', 'apiVersion: v1\nkind: Pod\nmetadata: x\n', 'Pod /(without name)', 'metadata that are no'],
    ['no metadata', 'apiVersion: v1\nkind: Pod\n', 'Pod /(without name)', 'has no metadata'],
    ['a number for a kind', 'apiVersion: v1\nkind: 3\n', undefined, 'it has no kind'],
    ['no version', 'kind: Pod\n', undefined, 'has no apiVersion'],
    ['a text alone', 'hello', undefined, 'must be an object'],
    ['a list alone', '- a\n- b\n', undefined, 'must be an object'],
    ['a name of 300 characters', service('x'.repeat(300), '{}'), `Service bad/${'x'.repeat(300)}`, 'is no legal name'],
    ['a name that climbs', service('../../x', '{}'), 'Service bad/../../x', 'is no legal name'],
    ['rules without bottom', deepPolicy(), 'AuthorizationPolicy default/deep', 'must be nested at most 32 deep'],
  ])('%s', async (what, text, object, reason) => {
    const file = `${what.replaceAll(' ', '-')}.${text.startsWith('{') ? 'json' : 'yaml'}`
    room.write(file, text)
    expect(await complaint(file)).toEqual({ object, reason: expect.stringContaining(reason), message: isLeftOut })
    expect(await room.beat()).toEqual(onlyTheBeat)
    room.remove(file)
    expect(await room.beat()).toEqual(onlyTheBeat)
  })
})

/** So deep that no stack would do. */
function deepPolicy(): string {
  return `{"apiVersion":"security.istio.io/v1","kind":"AuthorizationPolicy","metadata":{"name":"deep"},"spec":{"rules":${'['.repeat(200_000)}${']'.repeat(200_000)}}}`
}

describe('an address that is none is told with its object and passed over', () => {
  test.each([
    ['pod', podManifest('badly', '"10.0.0.300"', 'bad'), 'Pod bad/badly', 'status.podIPs has "10.0.0.300"'],
    ['gateway', gateway('999.1.1.1'), 'Gateway bad/door', 'status.addresses has "999.1.1.1"'],
    ['service', service('vipless', '{ clusterIP: "10.0.0" }'), 'Service bad/vipless', 'spec.clusterIPs has "10.0.0"'],
    [
      'range',
      entry('range', '{ hosts: [a.example], addresses: [1.2.3.0/33] }'),
      'ServiceEntry bad/range',
      '"1.2.3.0/33"',
    ],
  ])('%s', async (kind, text, object, reason) => {
    const file = `address-of-${kind}.yaml`
    room.write(file, text)
    expect(await complaint(file)).toEqual({
      object,
      reason: expect.stringContaining(reason),
      message: 'a manifest has an address that is none',
    })
    expect(await room.beat()).toEqual(onlyTheBeat)
    room.remove(file)
    expect(await room.beat()).toEqual(onlyTheBeat)
  })
})

function gateway(ip: string): string {
  return `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: door, namespace: bad }
spec: { gatewayClassName: istio-waypoint, listeners: [{ name: mesh, port: 15008, protocol: HBONE }] }
status: { addresses: [{ type: IPAddress, value: "${ip}" }] }
`
}

describe('a file that is no manifest is told and left out', () => {
  const bomb = Array.from(
    { length: 9 },
    (_v, i) =>
      `k${i}: &k${i} [${Array(9)
        .fill(i === 0 ? 'x' : `*k${i - 1}`)
        .join(', ')}]`,
  )
  test.each([
    ['bytes', Buffer.from(Array.from({ length: 2_000 }, (_v, i) => i & 0xff)), 'it is not UTF-8 text'],
    ['utf-16', Buffer.from(`\ufeff${podManifest('wide', '10.0.0.9')}`, 'utf16le'), 'it is not UTF-8 text'],
    ['zeros', Buffer.alloc(1_000), 'must be an object'],
    ['broken', Buffer.from('a: [1, 2\nb: 3\n'), ''],
    ['tabs', Buffer.from('a:\n\tb: 1\n'), ''],
    ['aliases-that-explode', Buffer.from(bomb.join('\n')), 'Excessive alias count'],
    ['brackets', Buffer.from('['.repeat(100_000)), ''],
  ])('%s', async (what, bytes, reason) => {
    const file = `${what}.yaml`
    room.write(file, bytes)
    const told = await complaint(file)
    expect(told).toEqual({ object: undefined, reason: expect.stringContaining(reason), message: isLeftOut })
    expect(await room.beat()).toEqual(onlyTheBeat)
    room.remove(file)
    expect(await room.beat()).toEqual(onlyTheBeat)
  })
})

test.each([
  ['an empty file', 'empty.yaml', ''],
  ['a file of white space and comments', 'blank.yaml', '\n  \n# nothing\n---\n---\n'],
  ['an empty JSON file', 'empty.json', ''],
  ['a file of another ending', 'notes.txt', podManifest('notes', '10.0.1.1')],
  ['a hidden file', '.hidden.yaml', podManifest('hidden', '10.0.1.2')],
  ['a file in a hidden folder', '.git/x.yaml', podManifest('git', '10.0.1.3')],
  ['a kind that nobody reads', 'deployment.yaml', 'apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: x }\n'],
])('%s is nothing, and no complaint', async (_, file, text) => {
  const before = room.complaints('').length
  room.write(file, text)
  expect(await room.beat()).toEqual(onlyTheBeat)
  expect(room.complaints('').length).toBe(before)
})

test('a byte order mark changes nothing', async () => {
  room.write('marked.yaml', `\ufeff${podManifest('marked', '10.0.2.1')}`)
  await room.server.parts.feed.synced
  const told = [...(await room.beat()), ...(await room.beat())]
  expect(told.flatMap(({ names }) => names).sort()).toEqual([
    'Kubernetes//Pod/story/beat',
    'Kubernetes//Pod/story/beat',
    'Kubernetes//Pod/story/marked',
  ])
  room.remove('marked.yaml')
  const gone = [...(await room.beat()), ...(await room.beat())]
  expect(gone.flatMap(({ removed }) => removed)).toEqual(['Kubernetes//Pod/story/marked'])
})

test('two files that define one object: the first by path stays and the other is told', async () => {
  room.write('two-a.yaml', podManifest('two', '10.0.3.1'))
  await room.beat()
  await room.beat()
  room.write('two-b.yaml', podManifest('two', '10.0.3.2'))
  await until(() => room.complaints('two-b.yaml').length > 0, 'a complaint about the second')
  expect(
    room.complaints('two-b.yaml').map(({ fields, message }) => [message, fields['object'], fields['first']]),
  ).toEqual([
    [
      'an object is defined twice; the first definition by path stays',
      'Pod story/two',
      `${join(room.folder, 'two-a.yaml')}:1`,
    ],
  ])
  expect(await room.beat()).toEqual(onlyTheBeat)
  room.remove('two-b.yaml')
  room.remove('two-a.yaml')
  await room.beat()
  await room.beat()
})

test('names from objects never break a line of the log, and an absurd host name is served as it is', async () => {
  room.write(
    'host.yaml',
    entry('host', `{ hosts: ["a\\nb\\e[31m.example", ${'z'.repeat(100_000)}.example], addresses: [1.2.3.10] }`),
  )
  await until(
    async () =>
      (await room.beat())
        .concat(await room.beat())
        .some(({ names }) => names.length > 1 || names[0] !== 'Kubernetes//Pod/story/beat'),
    'the host',
  )
  room.remove('host.yaml')
  await until(async () => (await room.beat()).some(({ removed }) => removed.length > 0), 'the removal')
})

test('a link to the folder itself, a link to nowhere, and a folder that is named like a file are no trouble', async () => {
  symlinkSync('.', join(room.folder, 'loop'))
  symlinkSync('/does/not/exist.yaml', join(room.folder, 'nowhere.yaml'))
  symlinkSync('/dev/zero', join(room.folder, 'endless.yaml'))
  mkdirSync(join(room.folder, 'folder.yaml'))
  expect(await room.beat()).toEqual(onlyTheBeat)
  for (const name of ['loop', 'nowhere.yaml', 'endless.yaml', 'folder.yaml']) room.remove(name)
  expect(await room.beat()).toEqual(onlyTheBeat)
})

test('a file of 64 MB that is no manifest does not end the program', async () => {
  room.write('huge.yaml', Buffer.alloc(64 * 1024 * 1024, 'x'))
  await until(() => room.complaints('huge.yaml').length > 0, 'a complaint about the huge file', 50_000)
  room.remove('huge.yaml')
  expect(await room.beat()).toEqual(onlyTheBeat)
})

test('a file replaced a thousand times ends as its last version says, and others hear nothing of it', async () => {
  for (let i = 0; i < 1_000; i++) room.write('often.yaml', podManifest('often', `10.0.${4 + (i >> 8)}.${i & 255}`))
  await until(
    () => room.server.parts.served.inputs.Pod.get('Kubernetes/story/often')?.ips[0] === '10.0.7.231',
    'the last version',
  )
  const told = (await room.beat()).flatMap(({ names, removed }) => [...names, ...removed])
  expect(new Set(told)).toEqual(new Set(['Kubernetes//Pod/story/often', 'Kubernetes//Pod/story/beat']))
  room.remove('often.yaml')
  await room.beat()
  await room.beat()
})

test('a file that is written slowly, in place, never shows half of itself as a deletion', async () => {
  const text = podManifest('slow', '10.0.8.1')
  writeFileSync(join(room.folder, 'slow.yaml'), text)
  await until(() => room.server.parts.served.inputs.Pod.get('Kubernetes/story/slow') !== undefined, 'the pod')
  await room.beat()
  for (let i = 1; i < text.length; i += 40) {
    writeFileSync(join(room.folder, 'slow.yaml'), text.slice(0, i))
    await room.beat()
  }
  writeFileSync(join(room.folder, 'slow.yaml'), text)
  expect(await room.beat()).toEqual(onlyTheBeat)
  expect(room.server.parts.served.inputs.Pod.get('Kubernetes/story/slow')?.ips).toEqual(['10.0.8.1'])
})

test('a folder that vanishes and comes back is read again; until then what is known stays', async () => {
  const keep = room.server.parts.served.address.store
  const before = keep.source('type.googleapis.com/istio.workload.Address')?.lookup('/10.0.8.1').length
  expect(before).toBe(1)
  rmSync(room.folder, { recursive: true })
  await until(
    () => room.complaints(room.folder).some(({ message }) => message.startsWith('the folder of manifests cannot')),
    'a complaint about the folder',
  )
  expect(keep.source('type.googleapis.com/istio.workload.Address')?.lookup('/10.0.8.1').length).toBe(1)
  mkdirSync(room.folder)
  room.write('slow.yaml', podManifest('slow', '10.0.8.1'))
  expect(await room.beat()).toEqual(onlyTheBeat)
  expect(room.failures()).toEqual([])
})
