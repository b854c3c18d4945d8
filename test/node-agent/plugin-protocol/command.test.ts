// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { parseCommand, parseCommandName, type CniCommand } from '../../../src/node-agent/plugin-protocol/command.js'
import { CniRefusal } from '../../../src/node-agent/plugin-protocol/refusal.js'

const fullEnv = {
  CNI_CONTAINERID: 'c0ffee',
  CNI_NETNS: '/var/run/netns/x',
  CNI_IFNAME: 'eth0',
  CNI_PATH: '/opt/cni/bin',
  CNI_ARGS: 'A=b',
}

function read(
  name: CniCommand['name'],
  stdin: unknown,
  env: Readonly<Record<string, string | undefined>> = {},
): CniCommand {
  const named: Readonly<Record<string, string | undefined>> = { ...fullEnv, ...env }
  const variables = Object.entries(named).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const text = typeof stdin === 'string' ? stdin : JSON.stringify(stdin)
  return parseCommand(name, { env: new Map(variables), stdin: Buffer.from(text) })
}

/** Code and message of a refusal. */
function refusalOf(act: () => unknown): [code: number, message: string] {
  try {
    act()
  } catch (error) {
    if (error instanceof CniRefusal) return [error.cniCode, error.message]
    throw error
  }
  throw new Error('nothing was refused')
}

const config = { cniVersion: '1.1.0', name: 'net' }

describe('an execution of the plugin', () => {
  test('is read with its configuration, the previous result as bytes', () => {
    const stdin =
      '{"cniVersion":"1.0.0","name":"n","exclude_namespaces":["a"],"pod_namespace":"p","ambient_enabled":false,"prevResult": {"a" :1} }'
    const command = read('ADD', stdin)
    const { prevResult, ...rest } = command.config
    expect({ ...command, config: rest }).toEqual({
      name: 'ADD',
      containerId: 'c0ffee',
      netnsPath: '/var/run/netns/x',
      cniArgs: 'A=b',
      config: { cniVersion: '1.0.0', excludeNamespaces: ['a'], podNamespace: 'p', ambientEnabled: false },
    })
    expect({ value: prevResult?.value, bytes: prevResult?.bytes.toString() }).toEqual({
      value: { a: 1 },
      bytes: '{"a" :1}',
    })
  })

  test('has a command of CNI, or is refused with 4', () => {
    expect(parseCommandName(new Map([['CNI_COMMAND', 'GC']]))).toBe('GC')
    for (const name of ['FROB', 'add', 'toString', '']) {
      expect(refusalOf(() => parseCommandName(new Map([['CNI_COMMAND', name]])))[0]).toBe(4)
    }
  })

  test('needs the variables of its command; all that are missing are named [4.1.6]', () => {
    expect(refusalOf(() => read('ADD', config, { CNI_NETNS: '', CNI_PATH: undefined }))).toEqual([
      4,
      'required variables are missing for ADD: CNI_NETNS, CNI_PATH',
    ])
    expect(read('DEL', config, { CNI_NETNS: undefined }).netnsPath).toBe('')
    const none = { CNI_CONTAINERID: undefined, CNI_NETNS: undefined, CNI_IFNAME: undefined }
    expect(read('GC', config, none).name).toBe('GC')
    expect(read('STATUS', config, none).name).toBe('STATUS')
    expect(refusalOf(() => read('STATUS', config, { CNI_PATH: '' }))[0]).toBe(4)
  })

  test('is checked in order: variables, stdin, name, form, version [4.1.6]', () => {
    const bad = { CNI_CONTAINERID: 'a/b', CNI_PATH: undefined }
    const codes = [
      refusalOf(() => read('ADD', '{nope', bad)),
      refusalOf(() => read('ADD', '{nope', { CNI_CONTAINERID: 'a/b' })),
      refusalOf(() => read('ADD', { cniVersion: '9' }, { CNI_CONTAINERID: 'a/b' })),
      refusalOf(() => read('ADD', { cniVersion: '9', name: 'n' }, { CNI_CONTAINERID: 'a/b' })),
      refusalOf(() => read('ADD', { cniVersion: '9', name: 'n' }, { CNI_IFNAME: 'a:b' })),
      refusalOf(() => read('ADD', { cniVersion: '9', name: 'n' })),
    ].map(([code]) => code)
    expect(codes).toEqual([4, 6, 7, 4, 4, 1])
  })

  test('has stdin that is one JSON object, or is refused with 6', () => {
    for (const stdin of [
      '',
      'null',
      '[]',
      '1',
      '{}x',
      `{"name":"n","x":"${'y'.repeat(1 << 20)}"}`,
      { name: 5 },
      { name: 'n', cniVersion: 1 },
    ]) {
      expect(refusalOf(() => read('DEL', stdin))[0]).toBe(6)
    }
  })

  test('has names of the form that CNI wants', () => {
    for (const name of ['', '-a', 'a b', 'a/b', null]) expect(refusalOf(() => read('ADD', { name }))[0]).toBe(7)
    for (const id of ['_a', 'a:b', 'é'])
      expect(refusalOf(() => read('ADD', config, { CNI_CONTAINERID: id }))[0]).toBe(4)
    for (const device of ['.', '..', 'a/b', 'a b', 'sixteen-letters-', 'ééééééééé']) {
      expect(refusalOf(() => read('ADD', config, { CNI_IFNAME: device }))[0]).toBe(4)
    }
    expect(read('ADD', { name: 'A.b_c-9' }, { CNI_IFNAME: 'fifteen-letters' }).name).toBe('ADD')
  })

  test('is of a version that knows the command; none means the first one', () => {
    const codes = (['CHECK', 'GC', 'STATUS'] as const).map((name) => refusalOf(() => read(name, { name: 'n' }))[0])
    expect(codes).toEqual([1, 1, 1])
    expect(refusalOf(() => read('CHECK', { name: 'n', cniVersion: '0.3.1' }))[0]).toBe(1)
    expect(read('CHECK', { name: 'n', cniVersion: '0.4.0' }).name).toBe('CHECK')
    expect(refusalOf(() => read('STATUS', { name: 'n', cniVersion: '1.0.0' }))[0]).toBe(1)
    expect(read('DEL', { name: 'n' }).config.cniVersion).toBeUndefined()
  })

  test('has settings of the right kind', () => {
    for (const more of [
      { exclude_namespaces: 'a' },
      { exclude_namespaces: [1] },
      { pod_namespace: 1 },
      { ambient_enabled: 'yes' },
    ]) {
      expect(refusalOf(() => read('ADD', { ...config, ...more }))[0]).toBe(999)
    }
    const absent = {
      exclude_namespaces: null,
      pod_namespace: null,
      ambient_enabled: null,
      prevResult: null,
      cniVersion: null,
    }
    expect(read('ADD', { name: 'n', ...absent }).config).toEqual({
      cniVersion: undefined,
      excludeNamespaces: [],
      podNamespace: '',
      ambientEnabled: true,
      prevResult: undefined,
    })
  })
})
