// SPDX-License-Identifier: Apache-2.0
import { afterAll, describe, expect, test } from '@jest/globals'
import { Fatal } from '../../../src/base/errors.js'
import type { NetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { type ChooseBackendOptions, chooseBackend } from '../../../src/node-agent/rules/backend-choice.js'
import { findNodeTools } from '../../../src/node-agent/rules/iptables-tools.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { Room, printing } from './iptables-room.js'

const room = new Room()
afterAll(() => room.close())

const folder = room.addPrograms({
  'iptables-legacy-save': printing('*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -j ACCEPT\nCOMMIT'),
  'iptables-legacy-restore': 'exit 0',
  'iptables-nft-save': printing(''),
  'iptables-nft-restore': 'exit 0',
})

/** A kernel that has nf_tables or not; programs run for real. */
function toWorkers(hasNfTables: boolean): NetnsWorkers {
  return {
    run: (job, request) =>
      job === 'rules/has-nf-tables' ? Promise.resolve(hasNfTables as never) : room.workers.run(job, request),
    close: () => Promise.resolve(),
  }
}

async function choose(hasNfTables: boolean, settings: Partial<ChooseBackendOptions>): Promise<string> {
  const chosen = await chooseBackend({
    nativeNftables: undefined,
    forceIptablesBinary: undefined,
    workers: toWorkers(hasNfTables),
    tools: findNodeTools(folder),
    ipv6: false,
    log: room.log,
    ...settings,
  })
  return chosen.backend
}

describe('the rule backend', () => {
  testWith('built', hostParts.built)('follows from the settings and from what the kernel has', async () => {
    expect(await choose(true, {})).toBe('nftables')
    expect(await choose(false, {})).toBe('iptables-legacy')
    expect(await choose(true, { nativeNftables: true })).toBe('nftables')
    await expect(choose(false, { nativeNftables: true })).rejects.toThrow(Fatal)
    expect(await choose(true, { nativeNftables: false })).toBe('iptables-legacy')
    expect(await choose(true, { nativeNftables: false, forceIptablesBinary: 'nft' })).toBe('iptables-nft')
    expect(await choose(true, { forceIptablesBinary: 'legacy' })).toBe('iptables-legacy')
  })

  testWith('netns', hostParts.netns ?? hostParts.built ?? hostParts.nft)('finds nf_tables in this kernel', async () => {
    const { handle } = room.addNetns('host')
    expect(await room.workers.run('rules/has-nf-tables', { netns: handle, args: undefined })).toBe(true)
  })

  test('is only found with absolute folders on the path', () => {
    expect(findNodeTools('.:bin:')).toEqual({ nft: {}, legacy: {}, plain: {}, ipset: undefined })
  })
})
