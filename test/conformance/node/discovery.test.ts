// SPDX-License-Identifier: Apache-2.0
// Recorded discoveries of pods: the owner that a process's cgroups name, and the namespaces found in a made-up process tree, which is laid out in a
// folder over real namespaces. Knows no case by name. The scans need root and dist/.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import { parseCgroup } from '../../../src/node-agent/netns/cgroup.js'
import { createNetnsFinder } from '../../../src/node-agent/netns/finder.js'
import { openHostNetns, openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { type Netns, type NetnsId, isSameNetns } from '../../../src/node-agent/netns/netns.js'
import { createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { type TestNetns, createTestNetworks } from '../../support/test-netns.js'
import { casesFolder } from '../folder.js'

interface CgroupAnswer {
  readonly podUid: string | null
  readonly containerId: string | null
  readonly error: boolean
}

interface CgroupCase {
  readonly about: string
  readonly cgroup: string
  readonly expect: CgroupAnswer
  readonly deviation?: { readonly expect: CgroupAnswer }
}

interface Process {
  readonly pid: number
  readonly cgroup: string
  readonly netns: string | null
  readonly start: number
  readonly comm?: string
  readonly stat?: string
  readonly nocgroup?: boolean
}

interface ScanAnswer {
  readonly found: Readonly<Record<string, string>>
  readonly error: string | null
}

interface ScanCase {
  readonly about: string
  readonly namespaces: Readonly<Record<string, readonly string[]>>
  readonly processes: readonly Process[]
  readonly pods: Readonly<Record<string, readonly string[]>>
  readonly expect: ScanAnswer
  readonly deviation?: { readonly expect: ScanAnswer }
}

const folder = casesFolder('node')
const file = folder === undefined ? undefined : join(folder, 'discovery.json')
const isThere = file !== undefined && existsSync(file)

if (!isThere) {
  testWith('recorded discoveries', 'there is no discovery.json among the cases')('discovery', () => undefined)
} else {
  const { cgroups, scans } = JSON.parse(readFileSync(file, 'utf8')) as {
    cgroups: readonly CgroupCase[]
    scans: readonly ScanCase[]
  }
  if (cgroups.length + scans.length === 0) throw new Error(`${file} holds no case`)

  if (cgroups.length > 0) {
    describe('the owner that cgroups name', () => {
      test.each(cgroups.map((row) => [row.about, row] as const))('%s', (_about, row) => {
        expect(answerCgroup(row.cgroup)).toEqual(row.deviation?.expect ?? row.expect)
      })
    })
  }

  if (scans.length > 0) {
    describe('namespaces found in a process tree', () => {
      const networks = createTestNetworks()
      const workers = createNetnsWorkers({ log: silentLogger })
      afterAll(async () => {
        await workers.close()
        networks.close()
      })
      const maybe = testWith('root', hostParts.netns ?? hostParts.built)
      for (const row of scans) {
        maybe(row.about, async () => {
          expect(await answerScan(row)).toEqual(toOutcome(row.deviation?.expect ?? row.expect))
        })
      }

      async function answerScan(row: ScanCase): Promise<unknown> {
        const made = new Map<string, TestNetns>([['host', networks.add('host')]])
        for (const [name, addresses] of Object.entries(row.namespaces)) made.set(name, addNamespace(addresses))
        const root = mkdtempSync(join(tmpdir(), 'addressd-scan-'))
        const hostNetns = openNetnsFile(made.get('host')!.path)
        try {
          layProcess(root, { pid: 1, cgroup: '0::/init.scope\n', netns: 'host', start: 1 }, made)
          for (const process of row.processes) layProcess(root, process, made)
          expect(
            isSameNetns(
              openAndClose(() => openHostNetns(root)),
              hostNetns,
            ),
          ).toBe(true)
          const finder = createNetnsFinder({ procRoot: root, hostPrefix: '', workers, log: silentLogger, hostNetns })
          const found = await finder.find(Object.entries(row.pods).map(([uid, ips]) => ({ uid, ips })))
          return {
            found: Object.fromEntries([...found].map(([uid, netns]) => [uid, nameOf(netns, made)])),
            fails: false,
          }
        } catch (error) {
          return { found: {}, fails: true, error: (error as Error).name }
        } finally {
          hostNetns.close()
          rmSync(root, { recursive: true })
          for (const netns of made.values()) netns.remove()
        }
      }

      function addNamespace(addresses: readonly string[]): TestNetns {
        const netns = networks.add('pod')
        netns.run(['ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other'])
        for (const address of addresses) {
          if (address.startsWith('lo:')) netns.addAddress(address.slice(3))
          else netns.addAddress(address, 'eth0')
        }
        return netns
      }
    })
  }
}

function answerCgroup(text: string): CgroupAnswer {
  try {
    const { podUid, containerId } = parseCgroup(text)
    return { podUid: podUid || null, containerId: containerId || null, error: false }
  } catch (error) {
    return { podUid: null, containerId: null, error: (error as Error).name === 'InvalidInput' }
  }
}

function toOutcome({ found, error }: ScanAnswer): unknown {
  return error === null ? { found, fails: false } : { found: {}, fails: true, error: 'Retryable' }
}

function layProcess(root: string, process: Process, made: ReadonlyMap<string, TestNetns>): void {
  const at = join(root, String(process.pid))
  mkdirSync(join(at, 'ns'), { recursive: true })
  rmSync(join(at, 'ns/net'), { force: true })
  const numbers = Array.from({ length: 18 }, (_v, i) => i)
  const stat = `${process.pid} (${process.comm ?? 'app'}) S ${numbers.join(' ')} ${process.start} 0 0\n`
  writeFileSync(join(at, 'stat'), process.stat ?? stat)
  if (process.nocgroup !== true) writeFileSync(join(at, 'cgroup'), process.cgroup)
  if (process.netns !== null) symlinkSync(made.get(process.netns)!.path, join(at, 'ns/net'))
}

function openAndClose(open: () => Netns): NetnsId {
  const netns = open()
  netns.close()
  return netns
}

/** The name of the case for a namespace that was found; its handle is closed. */
function nameOf(netns: Netns, made: ReadonlyMap<string, TestNetns>): string | undefined {
  const found = [...made].find(([, { path }]) =>
    isSameNetns(
      openAndClose(() => openNetnsFile(path)),
      netns,
    ),
  )
  netns.close()
  return found?.[0]
}
