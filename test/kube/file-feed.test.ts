// SPDX-License-Identifier: Apache-2.0
// The folder is what exists: files that come, change, break and go, and what the inputs hold then.

import { afterEach, describe, expect, test } from '@jest/globals'
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { Fatal } from '../../src/base/errors.js'
import { silentLogger } from '../../src/base/log.js'
import { createFileFeed } from '../../src/kube/file-feed.js'
import { FileRoom, podYaml } from './file-room.js'

const rooms: FileRoom[] = []

function createRoom(options: { revision?: string } = {}): FileRoom {
  const room = new FileRoom(options)
  rooms.push(room)
  return room
}

afterEach(async () => {
  for (const room of rooms.splice(0)) await room.close()
})

const ipOf = (room: FileRoom, name: string): string | undefined => room.inputs.Pod.get(`c1/shop/${name}`)?.ips[0]
const podNames = (room: FileRoom): string[] => [...room.inputs.Pod.values()].map((p) => p.name).sort()

describe('which files count', () => {
  test('subfolders are read; names that start with a dot or end otherwise are passed over', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    room.write('sub/deep/b.yml', podYaml('b', '10.0.0.2'))
    room.write('c.json', JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'c', namespace: 'shop' } }))
    room.write('.hidden.yaml', podYaml('x1', '10.0.0.3'))
    room.write('.git/x.yaml', podYaml('x2', '10.0.0.3'))
    room.write('..data/x.yaml', podYaml('x3', '10.0.0.3'))
    room.write('x.yaml.bak', podYaml('x4', '10.0.0.3'))
    room.write('x.YAML', podYaml('x5', '10.0.0.3'))
    room.write('README.md', '# [broken: yaml')
    await room.start()
    expect(podNames(room)).toEqual(['a', 'b', 'c'])
    expect(room.takeSets()).toEqual([['+Pod c1/shop/a', '+Pod c1/shop/b', '+Pod c1/shop/c']])
  })

  test('many documents and lists in one file; kinds that are not read are passed over in silence', async () => {
    const room = createRoom()
    room.write(
      'all.yaml',
      [
        podYaml('a', '10.0.0.1'),
        '# only a comment',
        '{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: 7}',
        '{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: not-the-one-we-read}}',
        '{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: istio-system}, data: {mesh: x}}',
        'apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}',
      ].join('\n---\n'),
    )
    await room.start()
    expect(room.takeSets()).toEqual([['+Namespace c1/shop', '+Node c1/n1', '+Pod c1/shop/a']])
    expect(room.told('warn')).toEqual([])
    expect(room.told('debug').map((l) => l.split(' | ')[3])).toEqual([
      'kind=apps/v1 Deployment',
      'kind=networking.istio.io/v1 Gateway',
      'kind=ConfigMap istio-system/other',
    ])
  })

  test('the mesh ConfigMap is the one of the revision in the system namespace', async () => {
    const room = createRoom({ revision: 'blue' })
    const map = (name: string) =>
      `{apiVersion: v1, kind: ConfigMap, metadata: {name: ${name}, namespace: istio-system}, data: {mesh: "trustDomain: ${name}"}}`
    room.write('a.yaml', [map('istio'), map('istio-blue')].join('\n---\n'))
    await room.start()
    expect([...room.inputs.ConfigMap.keys()]).toEqual(['c1/istio-system/istio-blue'])
    expect(room.inputs.ConfigMap.get('c1/istio-system/istio-blue')?.mesh).toBe('trustDomain: istio-blue')
  })

  test('a link to a file counts as the file, and a swap of the folder behind it is one change set', async () => {
    const room = createRoom()
    const version = (n: number): string => `..v${n}`
    for (const n of [1, 2]) {
      mkdirSync(join(room.folder, version(n)))
      writeFileSync(join(room.folder, version(n), 'a.yaml'), podYaml('a', `10.0.0.${n}`))
      writeFileSync(join(room.folder, version(n), 'b.yaml'), podYaml('b', `10.0.1.${n}`))
    }
    symlinkSync(version(1), join(room.folder, '..data'))
    symlinkSync('..data/a.yaml', join(room.folder, 'a.yaml'))
    symlinkSync('..data/b.yaml', join(room.folder, 'b.yaml'))
    await room.start()
    expect([ipOf(room, 'a'), ipOf(room, 'b')]).toEqual(['10.0.0.1', '10.0.1.1'])
    room.takeSets()
    symlinkSync(version(2), join(room.folder, '..next'))
    renameSync(join(room.folder, '..next'), join(room.folder, '..data'))
    await room.until(() => ipOf(room, 'a') === '10.0.0.2', 'the swap is seen')
    expect(room.takeSets()).toEqual([['+Pod c1/shop/a', '+Pod c1/shop/b']])
  })

  test('a link back to a folder above is not followed, a link to nowhere is nothing', async () => {
    const room = createRoom()
    room.write('sub/a.yaml', podYaml('a', '10.0.0.1'))
    symlinkSync('..', join(room.folder, 'sub', 'loop'))
    symlinkSync('missing.yaml', join(room.folder, 'dangling.yaml'))
    await room.start()
    expect(podNames(room)).toEqual(['a'])
    expect(room.told('warn')).toEqual([])
  })
})

describe('what changes', () => {
  test('an edit, a new file, a new folder and a delete become what the inputs hold', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    room.write('b.yaml', podYaml('b', '10.0.0.2'))
    await room.start()
    room.takeSets()
    room.write('a.yaml', podYaml('a', '10.0.0.9'))
    await room.until(() => ipOf(room, 'a') === '10.0.0.9', 'the edit is seen')
    expect(room.takeSets()).toEqual([['+Pod c1/shop/a']])
    room.write('new/deep/c.yaml', podYaml('c', '10.0.0.3'))
    await room.until(() => ipOf(room, 'c') !== undefined, 'the new folder is seen')
    appendFileSync(join(room.folder, 'new/deep/c.yaml'), `---\n${podYaml('d', '10.0.0.4')}`)
    await room.until(() => ipOf(room, 'd') !== undefined, 'an edit in the new folder is seen')
    rmSync(join(room.folder, 'new'), { recursive: true })
    unlinkSync(join(room.folder, 'b.yaml'))
    await room.until(() => podNames(room).length === 1, 'the deletes are seen')
    expect(podNames(room)).toEqual(['a'])
  })

  test('two files changed within 50 ms are one change set; nothing is taken in before the folder has been quiet so long', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    room.write('b.yaml', podYaml('b', '10.0.0.2'))
    await room.start()
    room.takeSets()
    room.write('a.yaml', podYaml('a', '10.0.0.8'))
    // The disk speaks in real time; the clock stands still, so only the quiet time can be what waits now.
    for (let tries = 0; room.clock.untilNext() !== 50 && tries < 5_000; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await room.clock.advance(40)
    room.write('b.yaml', podYaml('b', '10.0.0.9'))
    await room.clock.advance(9)
    expect(room.takeSets()).toEqual([])
    await room.until(() => ipOf(room, 'b') === '10.0.0.9', 'both are seen')
    expect(room.takeSets()).toEqual([['+Pod c1/shop/a', '+Pod c1/shop/b']])
  })

  test('an object that moves from one file to another in one change set is not touched', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    await room.start()
    room.takeSets()
    renameSync(join(room.folder, 'a.yaml'), join(room.folder, 'z.yaml'))
    await room.settle()
    expect(room.takeSets()).toEqual([])
    expect(podNames(room)).toEqual(['a'])
    expect(room.told('warn')).toEqual([])
  })

  test('a new uid is a new object under the same name', async () => {
    const room = createRoom()
    const withUid = (uid: string): string =>
      `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, uid: ${uid}}, status: {podIP: 10.0.0.1}}`
    room.write('a.yaml', withUid('u-1'))
    await room.start()
    room.takeSets()
    room.write('a.yaml', withUid('u-2'))
    await room.until(() => room.inputs.Pod.get('c1/shop/a')?.uid === 'u-2', 'the new uid is seen')
    expect(room.takeSets()).toEqual([['+Pod c1/shop/a']])
  })

  test('touching a file, or writing the same text again, changes nothing', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    await room.start()
    room.takeSets()
    utimesSync(join(room.folder, 'a.yaml'), 1, 1)
    room.write('a.yaml', podYaml('a', '10.0.0.1', '# a comment more\n'))
    await room.settle()
    expect(room.takeSets()).toEqual([])
  })

  test('of many edits in a row the last one is always what counts', async () => {
    const room = createRoom()
    const path = join(room.folder, 'a.yaml')
    const text = (n: number): string => podYaml('a', `10.0.${100 + Math.floor(n / 100)}.${100 + (n % 100)}`)
    writeFileSync(path, text(0))
    await room.start()
    for (let round = 0; round < 30; round++) {
      // Same length, same file, again and again while the feed looks: only the content tells them apart.
      for (let n = 0; n < 20; n++) {
        writeFileSync(path, text(round * 20 + n))
        await room.clock.advance(30)
      }
      const last = `10.0.${100 + Math.floor((round * 20 + 19) / 100)}.${100 + ((round * 20 + 19) % 100)}`
      await room.until(() => ipOf(room, 'a') === last, `edit ${round} is seen`)
    }
    expect(room.told('warn')).toEqual([])
  })

  test('a change that no wake-up told of is found by looking from time to time', async () => {
    const outside = createRoom()
    const room = createRoom()
    outside.write('real.yaml', podYaml('a', '10.0.0.1'))
    symlinkSync(join(outside.folder, 'real.yaml'), join(room.folder, 'a.yaml'))
    await room.start()
    outside.write('real.yaml', podYaml('a', '10.0.0.2'))
    await room.until(() => ipOf(room, 'a') === '10.0.0.2', 'the file behind the link is read again')
  })

  test('nothing is written into the folder', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    await room.start()
    expect(readdirSync(room.folder)).toEqual(['a.yaml'])
    expect(readFileSync(join(room.folder, 'a.yaml'), 'utf8')).toBe(podYaml('a', '10.0.0.1'))
  })
})

describe('two definitions of one object', () => {
  test('the first by path stays and the other is reported with both places; it takes over when the first goes', async () => {
    const room = createRoom()
    room.write('b.yaml', `# two lines\n\n${podYaml('a', '10.0.0.2')}`)
    room.write('a/z.yaml', podYaml('a', '10.0.0.1'))
    await room.start()
    expect(ipOf(room, 'a')).toBe('10.0.0.1')
    const warning =
      'an object is defined twice; the first definition by path stays | file=b.yaml | line=3 | object=Pod shop/a | reason=Pod shop/a is defined in a/z.yaml too | first=a/z.yaml:1'
    expect(room.told('warn')).toEqual([warning])
    room.takeSets()
    unlinkSync(join(room.folder, 'a/z.yaml'))
    await room.until(() => ipOf(room, 'a') === '10.0.0.2', 'the other takes over')
    expect(room.takeSets()).toEqual([['+Pod c1/shop/a']])
    expect(room.told('info').at(-2)).toBe('a reported problem is gone | file=b.yaml | object=Pod shop/a (again)')
    room.write('a/z.yaml', podYaml('a', '10.0.0.3'))
    await room.until(() => ipOf(room, 'a') === '10.0.0.3', 'the first counts again')
    expect(room.told('warn')).toEqual([warning, warning])
  })

  test('inside one file the earlier document stays', async () => {
    const room = createRoom()
    room.write('a.yaml', `${podYaml('a', '10.0.0.1')}---\n${podYaml('a', '10.0.0.2')}`)
    await room.start()
    expect(ipOf(room, 'a')).toBe('10.0.0.1')
    expect(room.told('warn')).toEqual([
      'an object is defined twice; the first definition by path stays | file=a.yaml | line=7 | object=Pod shop/a | reason=Pod shop/a is defined in a.yaml too | first=a.yaml:1',
    ])
  })

  test('paths are ordered by their bytes', async () => {
    const room = createRoom()
    // In bytes: '-' before '/', capitals before small letters, and U+FF41 before U+1F600 although its UTF-16 unit is higher.
    const paths = ['B.yaml', 'a-b.yaml', 'a/b.yaml', 'a0.yaml', 'ａ.yaml', '😀.yaml']
    for (const [i, path] of paths.toReversed().entries()) room.write(path, podYaml('a', `10.0.0.${i}`))
    await room.start()
    for (const [i, path] of paths.entries()) {
      await room.until(() => ipOf(room, 'a') === `10.0.0.${paths.length - 1 - i}`, `${path} counts`)
      unlinkSync(join(room.folder, path))
    }
    await room.until(() => ipOf(room, 'a') === undefined, 'all are gone')
  })
})

describe('what is wrong', () => {
  test('a file that is not YAML keeps its whole last good content and is reported once with its line', async () => {
    const room = createRoom()
    room.write('a.yaml', `${podYaml('a', '10.0.0.1')}---\n${podYaml('b', '10.0.0.2')}`)
    await room.start()
    room.takeSets()
    const broken = `${podYaml('a', '10.0.0.5')}---\nkind: [\n`
    room.write('a.yaml', broken)
    await room.until(() => room.told('warn').length > 0, 'it is reported')
    expect(room.lines.filter((l) => l.level === 'warn').map((l) => [l.message, l.fields.file, l.fields.line])).toEqual([
      ['a manifest is wrong here; the last good content stays', join(room.folder, 'a.yaml'), 8],
    ])
    room.write('a.yaml', broken)
    await room.settle()
    expect(room.told('warn')).toHaveLength(1)
    expect(room.takeSets()).toEqual([])
    room.write('a.yaml', podYaml('a', '10.0.0.5'))
    await room.until(() => ipOf(room, 'a') === '10.0.0.5', 'it is mended')
    expect(room.takeSets()).toEqual([['+Pod c1/shop/a', '-Pod c1/shop/b']])
    expect(room.told('info')).toContain('a reported problem is gone | file=a.yaml | object=line 8')
  })

  test('one bad object keeps its last good version while the others of its file go on', async () => {
    const room = createRoom()
    room.write('a.yaml', `${podYaml('a', '10.0.0.1')}---\n${podYaml('b', '10.0.0.2')}`)
    await room.start()
    room.takeSets()
    room.write('a.yaml', `${podYaml('a', '[1]')}---\n${podYaml('b', '10.0.0.3')}`)
    await room.until(() => ipOf(room, 'b') === '10.0.0.3', 'the other object goes on')
    expect(ipOf(room, 'a')).toBe('10.0.0.1')
    expect(room.takeSets()).toEqual([['+Pod c1/shop/b']])
    expect(room.told('warn')).toEqual([
      'a manifest is wrong here; the last good content stays | file=a.yaml | line=1 | object=Pod shop/a | reason=Pod shop/a: status.podIP must be a string, it is a list',
    ])
    // The same fault further down is no news; another fault is.
    room.write('a.yaml', `# moved down\n${podYaml('a', '[1]')}---\n${podYaml('b', '10.0.0.4')}`)
    await room.until(() => ipOf(room, 'b') === '10.0.0.4', 'the other object goes on again')
    expect(room.told('warn')).toHaveLength(1)
    room.write('a.yaml', `${podYaml('a', '7')}---\n${podYaml('b', '10.0.0.5')}`)
    await room.until(() => ipOf(room, 'b') === '10.0.0.5', 'the other object goes on once more')
    expect(room.told('warn')).toHaveLength(2)
    unlinkSync(join(room.folder, 'a.yaml'))
    await room.until(() => podNames(room).length === 0, 'the file is gone and so is what was kept of it')
  })

  test('an object that lost its name stays what it was until it can be told which it is', async () => {
    const room = createRoom()
    const node = '---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}\n'
    room.write('a.yaml', `${podYaml('a', '10.0.0.1')}${node}`)
    await room.start()
    room.write('a.yaml', '{apiVersion: v1, kind: Pod, metadata: {namespace: shop}, status: {podIP: 10.0.0.1}}')
    await room.until(() => room.inputs.Node.size === 0, 'the node is gone')
    expect(podNames(room)).toEqual(['a'])
    expect(room.told('warn')).toEqual([
      'a manifest is wrong here; this is left out | file=a.yaml | line=1 | object=Pod shop/(without name) | reason=this Pod has no metadata.name',
    ])
    room.write('a.yaml', podYaml('b', '10.0.0.1'))
    await room.until(() => ipOf(room, 'b') !== undefined, 'it has a name again')
    expect(podNames(room)).toEqual(['b'])
  })

  test.each([
    ['a document that is no object', '- 1\n- 2\n', 1, undefined],
    ['no kind', 'replicas: 3\n', 1, undefined],
    ['no apiVersion', '\n\n{kind: Pod, metadata: {name: a}}', 3, undefined],
    [
      'a name with a control character',
      '{apiVersion: v1, kind: Pod, metadata: {name: "a\\u0007"}}',
      1,
      'Pod default/a\u0007',
    ],
    ['a name that is a number', '{apiVersion: v1, kind: Pod, metadata: {name: 7}}', 1, 'Pod default/(without name)'],
    ['a generated name', '{apiVersion: v1, kind: Pod, metadata: {generateName: a-}}', 1, 'Pod default/(without name)'],
    ['a namespace that is none', '{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: A}}', 1, 'Pod A/a'],
    ['no metadata', '{apiVersion: v1, kind: Pod}', 1, 'Pod /(without name)'],
    [
      'a version that is not read',
      '{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice, metadata: {name: a}}',
      1,
      'EndpointSlice default/a',
    ],
    [
      'a field of a wrong type',
      '{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: None, ports: 80}}',
      1,
      'Service default/a',
    ],
    [
      'a label that is a number',
      '{apiVersion: v1, kind: Service, metadata: {name: a, labels: {v: 1}}, spec: {clusterIP: None}}',
      1,
      'Service default/a',
    ],
    ['a key given twice', 'apiVersion: v1\nkind: Pod\nkind: Pod\n', 3, undefined],
    ['an alias of nothing', 'apiVersion: v1\nkind: *pod\n', 2, undefined],
    [
      'aliases that grow without end',
      [
        'a: &a [x, x, x, x, x, x, x, x, x]',
        ...'bcdefghi'.split('').map((c, i) => `${c}: &${c} [${Array(9).fill(`*${'abcdefgh'[i]!}`).join(', ')}]`),
      ].join('\n'),
      1,
      undefined,
    ],
    ['JSON cut short', '{"apiVersion": "v1",\n "kind": "Pod",\n "metadata": {"name": "a"', 3, undefined],
  ])(
    '%s is left out and reported with line and object, and nothing else is disturbed',
    async (_what, text, line, object) => {
      const room = createRoom()
      room.write('good.yaml', podYaml('good', '10.0.0.1'))
      room.write('bad.yaml', text)
      await room.start()
      expect(room.takeSets()).toEqual([['+Pod c1/shop/good']])
      const warnings = room.lines.filter((l) => l.level === 'warn')
      expect(warnings.map((l) => [l.message, l.fields.file, l.fields.line, l.fields.object])).toEqual([
        ['a manifest is wrong here; this is left out', join(room.folder, 'bad.yaml'), line, object],
      ])
      expect(String(warnings[0]?.fields.reason)).not.toBe('')
    },
  )

  test('a file that is not UTF-8 is reported and keeps its last good content', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    await room.start()
    writeFileSync(join(room.folder, 'a.yaml'), Buffer.from([0x61, 0xff, 0xfe]))
    await room.until(() => room.told('warn').length > 0, 'it is reported')
    expect(room.told('warn')).toEqual([
      'a manifest is wrong here; the last good content stays | file=a.yaml | reason=it is not UTF-8 text',
    ])
    await room.clock.advance(10_000)
    await room.settle()
    expect(room.told('warn')).toHaveLength(1)
    expect(podNames(room)).toEqual(['a'])
  })

  test('a service without clusterIP and a pod without podIP are warned of once each', async () => {
    const room = createRoom()
    room.write(
      'a.yaml',
      '{apiVersion: v1, kind: Service, metadata: {name: s}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p}}\n',
    )
    await room.start()
    room.write('a.yaml', `# again\n${readFileSync(join(room.folder, 'a.yaml'), 'utf8')}`)
    await room.settle()
    expect(room.told('warn')).toEqual([
      'a manifest leaves out what is not made up | file=a.yaml | line=1 | object=Service default/s | reason=it has no spec.clusterIP, so it gets no address; write one, or None for a headless service',
      'a manifest leaves out what is not made up | file=a.yaml | line=3 | object=Pod default/p | reason=it has no status.podIP, so it is not published',
    ])
    expect([room.inputs.Service.size, room.inputs.Pod.size]).toEqual([1, 1])
  })
})

describe('the folder itself', () => {
  test('missing at the start, it ends the program and is named', async () => {
    const room = createRoom()
    const feed = createFileFeed({
      folder: join(room.folder, 'missing'),
      inputs: room.inputs,
      cluster: 'c1',
      systemNamespace: 'istio-system',
      clock: room.clock,
      log: silentLogger,
    })
    const error: unknown = await feed.run(new AbortController().signal).catch((e: unknown) => e)
    expect(error).toBeInstanceOf(Fatal)
    expect((error as Error).message).toContain(join(room.folder, 'missing'))
    expect(feed.pending()).toHaveLength(12)
  })

  test('a file in its place is Fatal too', async () => {
    const room = createRoom()
    room.write('a.yaml', '')
    const options = { inputs: room.inputs, cluster: 'c1', systemNamespace: 'x', clock: room.clock, log: silentLogger }
    const feed = createFileFeed({ folder: join(room.folder, 'a.yaml'), ...options })
    await expect(feed.run(new AbortController().signal)).rejects.toBeInstanceOf(Fatal)
  })

  test('empty, it is a mesh without anything', async () => {
    const room = createRoom()
    await room.start()
    expect(room.takeSets()).toEqual([])
    expect(room.told('warn')).toEqual([])
  })

  test('vanished later, what is known stays and it is said once; back again, it is read and watched as before', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    await room.start()
    const away = `${room.folder}-away`
    renameSync(room.folder, away)
    await room.until(() => room.told('warn').length > 0, 'it is said')
    await room.clock.advance(10_000)
    expect(podNames(room)).toEqual(['a'])
    expect(room.told('warn')).toHaveLength(1)
    expect(room.told('warn')[0]).toMatch(/^the folder of manifests cannot be read; what is known stays \| /)
    renameSync(away, room.folder)
    room.write('b.yaml', podYaml('b', '10.0.0.2'))
    await room.until(() => ipOf(room, 'b') !== undefined, 'it is back')
    expect(room.told('info').some((l) => l.startsWith('the folder of manifests is read and watched again'))).toBe(true)
    room.write('b.yaml', podYaml('b', '10.0.0.3'))
    await room.until(() => ipOf(room, 'b') === '10.0.0.3', 'it is watched')
  })

  test('replaced by another folder, the other one counts', async () => {
    const room = createRoom()
    const other = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    other.write('b.yaml', podYaml('b', '10.0.0.2'))
    await room.start()
    renameSync(room.folder, `${room.folder}-away`)
    renameSync(other.folder, room.folder)
    await room.until(() => ipOf(room, 'b') !== undefined, 'the other folder is read')
    expect(podNames(room)).toEqual(['b'])
    rmSync(`${room.folder}-away`, { recursive: true })
  })

  test('closing ends the watching', async () => {
    const room = createRoom()
    room.write('a.yaml', podYaml('a', '10.0.0.1'))
    await room.start()
    await room.close()
    expect(room.clock.pending).toBe(0)
  })
})
