// SPDX-License-Identifier: Apache-2.0
// Connections that are open when a pod is enrolled or taken out. Ours hold as many as the original's when the connection setting is set for it first: those
// that were open live on whatever the pod's history, and so they do through removal; what was opened through the proxy ends with it as recorded.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { parsePodOverrides } from '../../../src/node-agent/rules/overrides.js'
import { type Packet, createPacketRoom, probeAddress4, probeAddress6 } from '../../support/packet-room.js'
import { createTestRules, testBackends } from '../../support/rule-backends.js'
import { testWith } from '../../support/optional.js'
import { casesFolder } from '../folder.js'

interface Case {
  readonly backend: string
  readonly before: string
  readonly atFirst: Readonly<Record<string, string>>
  readonly afterEnrolment: Readonly<Record<string, string>>
  readonly openedWhileEnrolled: Readonly<Record<string, string>>
  readonly afterRemoval: Readonly<Record<string, string>>
}

const folder = casesFolder('node')
const cases: readonly Case[] =
  folder === undefined ? [] : JSON.parse(readFileSync(join(folder, 'established.json'), 'utf8')).cases
if (folder !== undefined && cases.length === 0) throw new Error('established.json holds no case')

const packets: Readonly<Record<string, Packet>> = {
  'app to another host': { from: 'pod', proto: 'tcp', dst: '10.99.0.2', port: 80 },
  'another host to the app': { from: 'peer', proto: 'tcp', dst: '10.244.1.5', port: 8080 },
  'app to another host (IPv6)': { from: 'pod', proto: 'tcp', dst: 'fd00:99::2', port: 80 },
  'another host to the app (IPv6)': { from: 'peer', proto: 'tcp', dst: 'fd00:244::5', port: 8080 },
  'app to loopback': { from: 'pod', proto: 'tcp', dst: '127.0.0.1', port: 8080 },
  'app to its own address': { from: 'pod', proto: 'tcp', dst: '10.244.1.5', port: 8080 },
  'app to another host, opened while enrolled (served by 15001)': {
    from: 'pod',
    proto: 'tcp',
    dst: '10.99.0.2',
    port: 80,
  },
}

function packetFor(name: string): Packet {
  const packet = packets[name]
  if (packet === undefined) throw new Error(`no connection is known that is called: ${name}`)
  return packet
}

let workers: NetnsWorkers
beforeAll(() => {
  workers = createNetnsWorkers({ log: silentLogger })
})
afterAll(() => workers.close())

describe.each(testBackends)('open connections with $name', (backend) => {
  const mine = cases.filter((one) => one.backend === backend.recordedAs)
  // The case in which the original was helped says what can be had; nobody helps ours, so that history is the same as none.
  const best = mine.find((one) => one.before.includes('nf_conntrack_tcp_loose')) ?? mine[0]
  const missing = best === undefined ? 'no recorded case for it' : backend.missing()

  for (const one of mine) {
    testWith('root', missing)(
      `live on: ${one.before}`,
      async () => {
        const room = createPacketRoom('open')
        const netns = openNetnsFile(room.pod.path)
        try {
          const isTracked = one.before.includes('conntrack in use')
          if (isTracked) {
            room.pod.run(
              ['nft', '-f', '-'],
              'table ip mine { chain c { type nat hook output priority 0; tcp dport 7 redirect to :8; }; }',
            )
          }
          if (one.before.includes('nf_conntrack_tcp_loose')) {
            room.pod.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_loose=0'])
          }
          const looseBefore = room.pod.run(['sysctl', '-n', 'net.netfilter.nf_conntrack_tcp_loose'])
          await room.start()
          const rules = await createTestRules(backend, workers)
          const { options } = parsePodOverrides(
            { namespace: 'ns', name: 'pod', annotations: {} },
            { ipv6: true, dnsCapture: true, probeAddress4, probeAddress6 },
          )
          const atFirst: Record<string, unknown> = {}
          for (const name of Object.keys(one.atFirst)) atFirst[name] = (await room.open(name, packetFor(name)))['state']
          expect(atFirst).toEqual(one.atFirst)

          await rules.apply(netns, options)
          const afterEnrolment: Record<string, unknown> = {}
          for (const name of Object.keys(one.afterEnrolment)) afterEnrolment[name] = await room.exchange(name)
          expect(afterEnrolment).toEqual(best!.afterEnrolment)

          const opened: Record<string, unknown> = {}
          for (const name of Object.keys(one.openedWhileEnrolled)) {
            const { state, lands } = await room.open(name, packetFor(name))
            expect(lands).toBe('pod:15001')
            opened[name] = state
          }
          expect(opened).toEqual(one.openedWhileEnrolled)

          await rules.remove(netns)
          const afterRemoval: Record<string, unknown> = {}
          for (const name of Object.keys(one.afterRemoval)) afterRemoval[name] = await room.exchange(name)
          expect(afterRemoval).toEqual(one.afterRemoval)
          const old: Record<string, unknown> = {}
          for (const name of Object.keys(one.atFirst)) old[name] = await room.exchange(name)
          expect(old).toEqual(best!.afterEnrolment)
          // Tables of iptables have no place to note what it was: there it becomes the kernel's default.
          const looseAfter = backend.recordedAs === 'nftables' ? looseBefore : '1\n'
          expect(room.pod.run(['sysctl', '-n', 'net.netfilter.nf_conntrack_tcp_loose'])).toBe(looseAfter)
        } finally {
          netns.close()
          room.close()
        }
      },
      120_000,
    )
  }
})
