// SPDX-License-Identifier: Apache-2.0
// Paths of the node agent's sockets as settings: what is taken as it is written, and what is refused under the setting's name.

import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseSettings } from '../../src/base/settings.js'
import { nodeSettingsTable } from '../../src/main/node-settings-table.js'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'settings-'))
  symlinkSync('/proc/self', join(folder, 'link'))
})
afterAll(() => rmSync(folder, { recursive: true }))

function read(env: Record<string, string>) {
  const { runFolder, ztunnelSocket } = parseSettings({
    table: nodeSettingsTable,
    argv: ['--files=/manifests'],
    env,
    ownPrefix: 'ADDRESSD_',
  }).settings
  return { runFolder, ztunnelSocket }
}

test('absolute paths are taken as they are written, up to the longest', () => {
  expect(read({})).toEqual({ runFolder: '/var/run/istio-cni', ztunnelSocket: '/var/run/ztunnel/ztunnel.sock' })
  const longest = { runFolder: `/${'a'.repeat(84)}`, ztunnelSocket: `/${'a'.repeat(101)}` }
  expect(read({ CNI_AGENT_RUN_DIR: longest.runFolder, ZTUNNEL_UDS_ADDRESS: longest.ztunnelSocket })).toEqual(longest)
  const odd = { runFolder: '/processes/../srv/', ztunnelSocket: '/proc/../srv/device' }
  expect(read({ CNI_AGENT_RUN_DIR: odd.runFolder, ZTUNNEL_UDS_ADDRESS: odd.ztunnelSocket })).toEqual(odd)
})

test.each<[string, string, string]>([
  ['CNI_AGENT_RUN_DIR', 'run/cni', 'is no absolute path'],
  ['CNI_AGENT_RUN_DIR', '/proc', 'is below /proc, where no sockets can be made'],
  ['CNI_AGENT_RUN_DIR', '/srv/../proc/1/cni', 'is below /proc, where no sockets can be made'],
  ['CNI_AGENT_RUN_DIR', '/sys/cni', 'is below /sys, where no sockets can be made'],
  ['CNI_AGENT_RUN_DIR', '/dev/shm/cni', 'is below /dev, where no sockets can be made'],
  ['CNI_AGENT_RUN_DIR', `/${'é'.repeat(43)}`, 'is too long for sockets; at most 85 bytes fit'],
  ['ZTUNNEL_UDS_ADDRESS', './ztunnel.sock', 'is no absolute path'],
  ['ZTUNNEL_UDS_ADDRESS', '/proc/none/ztunnel.sock', 'is below /proc, where no sockets can be made'],
  ['ZTUNNEL_UDS_ADDRESS', `/${'a'.repeat(102)}`, 'is too long for sockets; at most 102 bytes fit'],
])('%s=%s stops the start', (env, text, why) => {
  expect(() => read({ [env]: text })).toThrow(`${env}: "${text}" ${why}`)
})

test('a link that leads below /proc is followed, also where the rest of the path is not there yet', () => {
  const text = join(folder, 'link/none/here')
  expect(() => read({ CNI_AGENT_RUN_DIR: text })).toThrow(`CNI_AGENT_RUN_DIR: "${text}" is below /proc`)
})
