// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { createProcesses, formatIdentity } from '../../../src/node-agent/zds/processes.js'
import { closeDescriptor, openPair } from '../../../src/node-agent/zds/seqpacket.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { countDescriptors } from './zds-room.js'

test('the process at the other end is known by its number and the start of its life', () => {
  const [a, b] = openPair()
  const before = countDescriptors()
  const processes = createProcesses('/proc')
  const identity = processes.identify(a)
  expect(identity).toEqual(processes.own)
  expect(identity?.pid).toBe(process.pid)
  expect(processes.isRunning(identity!)).toBe(true)
  expect(processes.isRunning({ pid: process.pid, startTicks: identity!.startTicks + 1n })).toBe(false)
  expect(formatIdentity(identity!)).toBe(`${process.pid}@${identity!.startTicks}`)
  expect(countDescriptors()).toBe(before)
  closeDescriptor(a)
  closeDescriptor(b)
})

test('a process that has ended is not running, whether or not it was waited for', () => {
  const folder = mkdtempSync(join(tmpdir(), 'proc-'))
  mkdirSync(join(folder, '7'))
  // A name may hold whatever it likes.
  const stat = (state: string): string =>
    `7 (a) b) S 9) ${state} ${Array.from({ length: 40 }, (_, i) => i + 100).join(' ')}\n`
  const processes = createProcesses(folder)
  const identity = { pid: 7, startTicks: 118n }
  writeFileSync(join(folder, '7/stat'), stat('S'))
  expect(processes.isRunning(identity)).toBe(true)
  writeFileSync(join(folder, '7/stat'), stat('Z'))
  expect(processes.isRunning(identity)).toBe(false)
  rmSync(folder, { recursive: true })
  expect(processes.isRunning(identity)).toBe(false)
})

test('nobody is known where there is no procfs', () => {
  const [a, b] = openPair()
  const processes = createProcesses('/nowhere')
  expect([processes.own, processes.identify(a)]).toEqual([undefined, undefined])
  closeDescriptor(a)
  closeDescriptor(b)
})

testWith('root', hostParts.root)(
  'an agent in a pid namespace of its own is shown others as the procfs of the node counts them',
  () => {
    const module = (path: string): string => new URL(path, import.meta.url).href
    const script = `import { register } from 'node:module'
register('${module('../../support/typescript-hooks.mjs')}')
const { createProcesses } = await import('${module('../../../src/node-agent/zds/processes.ts')}')
const { openPair } = await import('${module('../../../src/node-agent/zds/seqpacket.ts')}')
const { own, identify } = createProcesses('/proc')
const other = identify(openPair()[0])
console.log(process.pid, own.pid > 1, own.pid === other.pid && own.startTicks === other.startTicks)`
    const inside = ['-pf', '--kill-child', process.execPath, '--input-type=module', '-e', script]
    const { stdout, stderr } = spawnSync('unshare', inside, {
      encoding: 'utf8',
      cwd: new URL('../../..', import.meta.url),
    })
    expect({ stdout, stderr }).toEqual({ stdout: '1 true true\n', stderr: '' })
  },
)
