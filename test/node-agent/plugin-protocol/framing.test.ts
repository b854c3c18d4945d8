// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../../src/base/errors.js'
import { formatPluginCall, parsePluginCall } from '../../../src/node-agent/plugin-protocol/framing.js'

describe('a framed call', () => {
  test('comes apart as it was put together, whatever stdin holds', () => {
    const env = new Map([
      ['CNI_COMMAND', 'ADD'],
      ['CNI_ARGS', 'A=b;C=d'],
      ['CNI_NETNS', ''],
    ])
    const stdin = Buffer.from([0, 1, 0, 0xff, 0x0a])
    const call = parsePluginCall(formatPluginCall({ env, stdin }))
    expect({ env: [...call.env], stdin: [...call.stdin] }).toEqual({ env: [...env], stdin: [...stdin] })
  })

  test('may be empty', () => {
    const call = parsePluginCall(Buffer.from('\0'))
    expect({ env: [...call.env], stdin: call.stdin.length }).toEqual({ env: [], stdin: 0 })
  })

  test('of a variable that is there twice the first counts, as for every program', () => {
    expect([...parsePluginCall(Buffer.from('A=1\0A=2\0\0')).env]).toEqual([['A', '1']])
  })

  test('without an end, or with something that is no variable, is refused', () => {
    for (const body of ['', 'A=1', 'A=1\0', 'A\0\0', '=1\0\0']) {
      expect(() => parsePluginCall(Buffer.from(body))).toThrow(InvalidInput)
    }
  })
})
