// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import {
  booleanValue,
  durationValue,
  integerValue,
  listenValue,
  nameValue,
  periodValue,
  textValue,
} from '../../src/base/setting-values.js'
import { formatSettingsHelp } from '../../src/base/settings-help.js'
import { parseSettings, type IgnoredFlag, type SettingsTable } from '../../src/base/settings.js'

const table = {
  addr: { group: 'Listening', flag: 'grpcAddr', default: ':15010', type: listenValue, sentence: 'Where to listen.' },
  wait: {
    group: 'Time',
    flag: 'waitTime',
    env: 'WAIT_TIME',
    default: '20ms',
    type: durationValue,
    sentence: 'How long to wait.',
  },
  age: { group: 'Time', env: 'MAX_AGE', default: '30m', type: periodValue, sentence: 'How old to become.' },
  loud: {
    group: 'Words',
    flag: 'loud',
    env: 'ADDRESSD_LOUD',
    default: 'false',
    type: booleanValue,
    sentence: 'Shout.',
  },
  name: {
    group: 'Words',
    flag: 'namespace',
    short: 'n',
    env: 'POD_NAMESPACE',
    default: 'istio-system',
    type: nameValue('NAMESPACE'),
    sentence: 'Who one is.',
  },
  note: { group: 'Words', flag: 'note', default: '', type: textValue('TEXT'), sentence: 'Anything.' },
  size: { group: 'Words', env: 'ADDRESSD_SIZE', default: '5', type: integerValue(1, 10), sentence: 'How big.' },
} satisfies SettingsTable

const ignored: readonly IgnoredFlag[] = [
  { flag: 'registries', value: 'one', why: 'only Kubernetes is read' },
  { flag: 'profile', value: 'none', why: 'there is no profiler' },
  { flag: 'old', short: 'a', value: 'one', why: 'it is old' },
]

function read(argv: string[], env: Record<string, string> = {}, check?: () => string[]) {
  return parseSettings({
    table,
    ignored,
    argv,
    env,
    ownPrefix: 'ADDRESSD_',
    siblingEnv: ['ADDRESSD_SERVER'],
    ...(check === undefined ? {} : { check }),
  })
}

function problems(argv: string[], env: Record<string, string> = {}): string[] {
  try {
    read(argv, env)
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidInput)
    const [head, ...lines] = (error as Error).message.split('\n')
    expect(head).toBe(
      lines.length === 1 ? 'the settings have a problem:' : `the settings have ${lines.length} problems:`,
    )
    return lines.map((line) => line.trim())
  }
  return []
}

const defaults = {
  addr: { host: undefined, port: 15_010 },
  wait: 20,
  age: 1_800_000,
  loud: false,
  name: 'istio-system',
  note: '',
  size: 5,
}

describe('reading', () => {
  test('nothing given, everything has its default, and nobody can change it', () => {
    const { settings, warnings } = read([])
    expect(settings).toEqual(defaults)
    expect(Object.isFrozen(settings)).toBe(true)
    expect(warnings).toEqual([])
  })

  test('a flag wins over the environment, the last of two flags wins', () => {
    const env = { WAIT_TIME: '1s', POD_NAMESPACE: 'mesh', MAX_AGE: '1h' }
    expect(read(['--waitTime', '1m30s', '--waitTime=2s', '-n', 'own'], env).settings).toEqual({
      ...defaults,
      wait: 2_000,
      name: 'own',
      age: 3_600_000,
    })
  })

  test('a switch needs no value and takes one only after the equals sign', () => {
    expect(read(['--loud']).settings.loud).toBe(true)
    expect(read(['--loud=F'], { ADDRESSD_LOUD: 'true' }).settings.loud).toBe(false)
    expect(problems(['--loud', 'false'])).toEqual(['"false" is not a flag; this command takes flags only'])
  })

  test('an empty flag value counts, an empty environment value does not', () => {
    expect(read(['--grpcAddr='], { POD_NAMESPACE: '' }).settings).toEqual({ ...defaults, addr: undefined })
    expect(read(['--grpcAddr', '']).settings.addr).toBeUndefined()
  })

  test('the longest duration means never', () => {
    expect(read([], { MAX_AGE: '2562047h47m16.854775807s' }).settings.age).toBe(Number.POSITIVE_INFINITY)
  })

  test('flags of others are taken with a warning each, in all their forms', () => {
    expect(
      read(['--registries', 'Kubernetes', '--registries=Mock', '--profile', '--profile=false', '-a', 'x']),
    ).toEqual({
      settings: defaults,
      warnings: [
        '--registries is ignored: only Kubernetes is read',
        '--registries is ignored: only Kubernetes is read',
        '--profile is ignored: there is no profiler',
        '--profile is ignored: there is no profiler',
        '-a is ignored: it is old',
      ],
    })
  })
})

describe('refusing', () => {
  test('every problem is said at once', () => {
    const env = { MAX_AGE: '0', ADDRESSD_SIZE: '11', ADDRESSD_SZE: '1', WAIT_TIME: '-1s' }
    expect(problems(['--grpc-addr', ':1', 'serve', '--loud=yes', '--namespace=', '--note'], env)).toEqual([
      '--grpc-addr is not a flag of this command (did you mean --grpcAddr?)',
      '"serve" is not a flag; this command takes flags only',
      '--note needs a value',
      'WAIT_TIME: "-1s" is negative',
      'MAX_AGE: "0" must be more than zero',
      '--loud: "yes" is not a boolean; write true or false',
      '--namespace: must not be empty',
      'ADDRESSD_SIZE: "11" is out of range; it must be from 1 to 10',
      'ADDRESSD_SZE is not an environment name that this program knows',
    ])
  })

  test('rules between settings are asked only when each value could be read', () => {
    const check = (): string[] => ['a and b exclude each other']
    expect(() => read([], {}, check)).toThrow('the settings have a problem:\n  a and b exclude each other')
    expect(() => read(['--waitTime=x'], {}, check)).not.toThrow('exclude')
  })
})

describe('environment names of others', () => {
  test('are not judged, nor are those of sibling programs', () => {
    expect(problems([], { PILOT_TRACE_SAMPLING: 'x', PATH: '/bin', ADDRESSD_SERVER: 'x' })).toEqual([])
  })

  test('what Kubernetes writes beside a Service named addressd stops nothing', () => {
    const env = {
      ADDRESSD_SERVICE_HOST: '10.96.0.9',
      ADDRESSD_SERVICE_PORT: '15010',
      ADDRESSD_SERVICE_PORT_GRPC_XDS: '15010',
      ADDRESSD_PORT: 'tcp://10.96.0.9:15010',
      ADDRESSD_PORT_15010_TCP: 'tcp://10.96.0.9:15010',
      ADDRESSD_PORT_15010_TCP_ADDR: '10.96.0.9',
      ADDRESSD_CANARY_SERVICE_HOST: '10.96.0.10',
      ADDRESSD_CANARY_PORT: 'tcp://10.96.0.10:15010',
    }
    expect(problems([], env)).toEqual([])
    expect(problems([], { ADDRESSD_PORT: '15010' })).toEqual([
      'ADDRESSD_PORT is not an environment name that this program knows',
    ])
  })
})

test('help has a heading a group and says flag, environment name and default', () => {
  expect(formatSettingsHelp({ wait: table.wait, age: table.age, name: table.name })).toBe(
    [
      'Time:',
      '  --waitTime DURATION',
      '      How long to wait. (default: 20ms; environment: WAIT_TIME)',
      '  MAX_AGE=DURATION',
      '      How old to become. (default: 30m)',
      '',
      'Words:',
      '  -n, --namespace NAMESPACE',
      '      Who one is. (default: istio-system; environment: POD_NAMESPACE)',
      '',
    ].join('\n'),
  )
})
