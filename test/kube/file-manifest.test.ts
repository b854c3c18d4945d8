// SPDX-License-Identifier: Apache-2.0
// Text of a manifest in, objects with their lines out.

import { describe, expect, test } from '@jest/globals'
import { UnreadableManifest, parseManifest } from '../../src/kube/file-manifest.js'

async function failure(text: string): Promise<UnreadableManifest> {
  const error: unknown = await parseManifest(text).catch((e: unknown) => e)
  expect(error).toBeInstanceOf(UnreadableManifest)
  return error as UnreadableManifest
}

describe('YAML', () => {
  test.each([
    ['nothing', '', []],
    ['only comments and markers', '# a\n---\n# b\n---\n...\n', []],
    ['one document', '# head\na: 1\n', [{ value: { a: 1 }, line: 2 }]],
    [
      'many documents',
      '---\na: 1\n---\n\n# x\nb: 2\n...\n---\nc: 3',
      [
        { value: { a: 1 }, line: 2 },
        { value: { b: 2 }, line: 6 },
        { value: { c: 3 }, line: 9 },
      ],
    ],
    [
      'Windows line ends and a byte order mark',
      '\uFEFFa: 1\r\n---\r\nb: 2\r\n',
      [
        { value: { a: 1 }, line: 1 },
        { value: { b: 2 }, line: 3 },
      ],
    ],
    [
      'words that are text and not booleans or times',
      'a: yes\nb: 2026-01-01T00:00:00Z\nc: 0x10\nd: "1"\n',
      [{ value: { a: 'yes', b: '2026-01-01T00:00:00Z', c: 16, d: '1' }, line: 1 }],
    ],
    [
      'anchors and merge keys',
      'x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\n',
      [{ value: { x: { a: 1, b: 2 }, y: { a: 1, b: 3 } }, line: 1 }],
    ],
    [
      'a list',
      'kind: List\nitems:\n- a: 1\n-\n  b: 2\n',
      [
        { value: { a: 1 }, line: 3 },
        { value: { b: 2 }, line: 5 },
      ],
    ],
    [
      'a list of one kind',
      'apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n',
      [{ value: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } }, line: 4 }],
    ],
    [
      'a list in a list',
      'kind: List\nitems:\n- kind: List\n  items: [{a: 1}, {b: 2}]\n',
      [
        { value: { a: 1 }, line: 3 },
        { value: { b: 2 }, line: 3 },
      ],
    ],
    ['an empty list', 'kind: List\nitems: []\n', []],
    [
      'a list with nothing in it for an item',
      'kind: List\nitems:\n- null\n- 5\n',
      [
        { value: null, line: 3 },
        { value: 5, line: 4 },
      ],
    ],
    ['a List without items', 'kind: List\n', [{ value: { kind: 'List' }, line: 1 }]],
    ['a scalar', 'just text', [{ value: 'just text', line: 1 }]],
    [
      'a key that means something to JavaScript',
      '__proto__: {a: 1}\n',
      [{ value: JSON.parse('{"__proto__": {"a": 1}}'), line: 1 }],
    ],
  ])('%s', async (_what, text, items) => {
    expect(await parseManifest(text)).toEqual(items)
  })

  test.each([
    ['a tab where blanks belong', 'a:\n\tb: 1\n', 2],
    ['a bracket that never closes', 'a: 1\n---\nb: [1,\n', 4],
    ['a second document that is wrong', 'a: 1\n---\nb: 1\nb: 2\n', 4],
    ['two mistakes: the first counts', 'a: 1\na: 2\n---\nb: "\n', 2],
    ['an unknown alias', 'a: 1\nb:\n- *none\n', 3],
    ['a directive without a document', '%YAML\n', 1],
  ])('%s: the line is named', async (_what, text, line) => {
    const error = await failure(text)
    expect([error.line, error.message.includes('\n')]).toEqual([line, false])
  })

  test('a nesting that no stack is deep enough for is an error, not the end', async () => {
    await expect(parseManifest(`a: ${'['.repeat(50_000)}`)).rejects.toBeInstanceOf(Error)
  })
})

describe('JSON', () => {
  test.each([
    ['one object', '\n {"a": 1}\n', [{ value: { a: 1 }, line: 2 }]],
    [
      'objects one after another',
      '{"a": "}{"}\n{"b": "\\"}"}{"c": 3}',
      [
        { value: { a: '}{' }, line: 1 },
        { value: { b: '"}' }, line: 2 },
        { value: { c: 3 }, line: 2 },
      ],
    ],
    [
      'a list',
      '{"x": {"items": [1]}, "items" : [\n{"a": 1},\n\n{"b": [1, 2]},\n null,\n 5],\n"kind": "List"}',
      [
        { value: { a: 1 }, line: 2 },
        { value: { b: [1, 2] }, line: 4 },
        { value: null, line: 5 },
        { value: 5, line: 6 },
      ],
    ],
    [
      'a list of one kind',
      '{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]}',
      [{ value: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } }, line: 1 }],
    ],
    [
      'a word "items" as a value',
      '{"kind": "List", "note": "items", "items": [\n{"a": 1}]}',
      [{ value: { a: 1 }, line: 2 }],
    ],
    ['tabs', '{\n\t"a":\t{\n\t\t"b": 1\n\t}\n}', [{ value: { a: { b: 1 } }, line: 1 }]],
    [
      'YAML that starts like it',
      '{a: 1}\n---\nb: 2\n',
      [
        { value: { a: 1 }, line: 1 },
        { value: { b: 2 }, line: 3 },
      ],
    ],
  ])('%s', async (_what, text, items) => {
    expect(await parseManifest(text)).toEqual(items)
  })

  test('broken JSON is told with its line', async () => {
    expect((await failure('{"a": 1,\n "b" 2}')).line).toBe(2)
  })
})
