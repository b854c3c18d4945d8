// SPDX-License-Identifier: Apache-2.0
// Process trees are made up in a folder, over real namespaces; the scan runs in the product's worker from dist/.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import type { NetnsFinder, WantedPod } from '../../../src/node-agent/contracts.js'
import { createNetnsFinder } from '../../../src/node-agent/netns/finder.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { listAddressesJob } from '../../../src/node-agent/netns/list-addresses-job.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import { parseStartTime } from '../../../src/node-agent/netns/process-scan.js'
import { createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { type TestNetns, createTestNetworks } from '../../support/test-netns.js'

const maybe = testWith('root', hostParts.built ?? hostParts.netns)
const networks = createTestNetworks()
const workers = createNetnsWorkers({ log: silentLogger, count: 1 })
const uid = (n: number): string => `2c48913c-b29f-11e7-9350-${String(n).padStart(12, '0')}`
const cgroup = (n: number): string => `0::/kubepods/pod${uid(n)}/${'9bca8d63'.repeat(8)}\n`
const countDescriptors = (): number => readdirSync('/proc/self/fd').length

let root = ''
let host: TestNetns
let hostNetns: Netns
let finder: NetnsFinder

beforeAll(() => {
  if (hostParts.netns !== undefined) return
  host = networks.add('host')
  hostNetns = openNetnsFile(host.path)
  root = mkdtempSync(join(tmpdir(), 'addressd-finder-'))
  finder = createNetnsFinder({ procRoot: root, hostPrefix: '', workers, log: silentLogger, hostNetns })
  layProcess(1, '0::/\n', host.path)
})
afterEach(() => {
  if (root === '') return
  for (const pid of readdirSync(root)) if (pid !== '1') rmSync(join(root, pid), { recursive: true })
})
afterAll(async () => {
  await workers.close()
  if (root !== '') {
    hostNetns.close()
    rmSync(root, { recursive: true })
  }
  networks.close()
})

function layProcess(pid: number, cgroupText: string, netnsPath: string, startTime = 100): void {
  const at = join(root, String(pid))
  mkdirSync(join(at, 'ns'), { recursive: true })
  writeFileSync(join(at, 'stat'), `${pid} (app) S ${'0 '.repeat(18)}${startTime} 0\n`)
  writeFileSync(join(at, 'cgroup'), cgroupText)
  symlinkSync(netnsPath, join(at, 'ns/net'))
}

function addPod(...addresses: string[]): TestNetns {
  const netns = networks.add('pod')
  for (const address of addresses) netns.addAddress(address)
  return netns
}

/** Finds, closes, and gives the inodes. */
async function find(...pods: WantedPod[]): Promise<Record<string, bigint>> {
  const found = [...(await finder.find(pods))]
  for (const [, netns] of found) netns.close()
  return Object.fromEntries(found.map(([name, { inode }]) => [name, inode]))
}

function inodeOf({ path }: TestNetns): bigint {
  const netns = openNetnsFile(path)
  netns.close()
  return netns.inode
}

async function failureOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'none'
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
}

describe('a namespace that the runtime names', () => {
  maybe('is opened below the prefix under which the agent sees the node', async () => {
    const pod = addPod()
    const prefixed = createNetnsFinder({
      procRoot: root,
      hostPrefix: '/var/run',
      workers,
      log: silentLogger,
      hostNetns,
    })
    const netns = await prefixed.open(`/netns/${pod.name}`)
    expect(netns.inode).toBe(inodeOf(pod))
    netns.close()
  })

  maybe(
    "is refused when it is the node's own, a regular file, or no path; and may come when it is not there",
    async () => {
      const file = join(root, '1/stat')
      const before = countDescriptors()
      const paths = [host.path, file, 'netns/x', '', '/a\0b', '/var/run/netns/adt-not-there']
      expect(await Promise.all(paths.map((path) => failureOf(finder.open(path))))).toEqual([
        `InvalidInput: ${host.path} is the node's own network namespace`,
        `InvalidInput: ${file} is no network namespace`,
        'InvalidInput: "netns/x" is no path of a network namespace: it must begin with /',
        'InvalidInput: "" is no path of a network namespace: it must begin with /',
        'InvalidInput: "/a\\u0000b" is no path of a network namespace: it must begin with /',
        'Retryable: cannot open the network namespace /var/run/netns/adt-not-there: ENOENT',
      ])
      expect(countDescriptors()).toBe(before)
    },
  )
})

describe('a look through the processes', () => {
  maybe('finds pods among 2,000 processes, leaves no descriptor, and lets other jobs of its thread pass', async () => {
    const pods = [addPod('10.1.0.1/24'), addPod('10.1.0.2/24'), addPod('fd00::3/64')]
    for (let pid = 2; pid < 2_000; pid++) layProcess(pid, '0::/system.slice\n', pid % 2 === 0 ? host.path : '/nowhere')
    for (const [i, pod] of pods.entries()) layProcess(5_000 + i, cgroup(i), pod.path)
    const ips = ['10.1.0.1', '10.1.0.2', 'fd00:0::3']
    const wanted = ips.map((ip, i) => ({ uid: uid(i), ips: [ip] }))
    await find(...wanted)
    const before = countDescriptors()
    const ended: string[] = []
    const [found] = await Promise.all([
      find(...wanted).finally(() => ended.push('scan')),
      workers.run(listAddressesJob, { netns: hostNetns, args: undefined }).finally(() => ended.push('other job')),
    ])
    expect(found).toEqual(Object.fromEntries(pods.map((pod, i) => [uid(i), inodeOf(pod)])))
    expect([ended, countDescriptors()]).toEqual([['other job', 'scan'], before])
  })

  maybe('takes an address on loopback and one written as IPv4 in IPv6', async () => {
    const pod = addPod('10.1.0.9/32')
    layProcess(7, cgroup(1), pod.path)
    expect(await find({ uid: uid(1), ips: ['::ffff:10.1.0.9'] })).toEqual({ [uid(1)]: inodeOf(pod) })
    const seen = new Set<string>()
    await finder.find(
      [1, 2].map((n) => ({ uid: uid(n), ips: ['10.9.9.9'] })),
      seen,
    )
    expect([...seen]).toEqual([uid(1)])
  })

  maybe('does not find a pod without an address, nor look when all are so', async () => {
    const pod = addPod('10.1.0.1/24')
    layProcess(7, cgroup(1), pod.path)
    expect([
      await find({ uid: uid(1), ips: [] }),
      await find(),
      await find({ uid: uid(1), ips: ['no address'] }),
    ]).toEqual([{}, {}, {}])
  })

  maybe('closes the namespace of the younger process', async () => {
    const [old, young] = [addPod('10.1.0.1/24'), addPod('10.1.0.1/24')]
    layProcess(7, cgroup(1), young.path, 200)
    layProcess(8, cgroup(1), old.path, 100)
    layProcess(9, cgroup(1), young.path, 50)
    await find({ uid: uid(1), ips: ['10.1.0.1'] })
    const before = countDescriptors()
    expect(await find({ uid: uid(1), ips: ['10.1.0.1'] })).toEqual({ [uid(1)]: inodeOf(old) })
    expect(countDescriptors()).toBe(before)
  })

  maybe("never gives the node's own namespace, by whichever name it comes", async () => {
    host.addAddress('10.1.0.1/24')
    layProcess(7, cgroup(1), host.path)
    const other = mkdtempSync(join(tmpdir(), 'addressd-finder-'))
    mkdirSync(join(other, '1/ns'), { recursive: true })
    symlinkSync(addPod().path, join(other, '1/ns/net'))
    symlinkSync(join(root, '7'), join(other, '7'))
    const elsewhere = createNetnsFinder({ procRoot: other, hostPrefix: '', workers, log: silentLogger, hostNetns })
    expect(await find({ uid: uid(1), ips: ['10.1.0.1'] })).toEqual({})
    expect((await elsewhere.find([{ uid: uid(1), ips: ['10.1.0.1'] }])).size).toBe(0)
    rmSync(other, { recursive: true })
  })

  maybe('fails as a whole when the namespace of process 1 is not known', async () => {
    const empty = mkdtempSync(join(tmpdir(), 'addressd-finder-'))
    const blind = createNetnsFinder({ procRoot: empty, hostPrefix: '', workers, log: silentLogger, hostNetns })
    expect(await failureOf(blind.find([{ uid: uid(1), ips: ['10.1.0.1'] }]))).toMatch(
      /^Retryable: cannot look through the node's processes in .*ENOENT/,
    )
    rmSync(empty, { recursive: true })
  })
})

describe('the start of a process', () => {
  test('is field 22 of its stat, whatever its name', () => {
    expect(parseStartTime(`7 (a) b) (c) S ${'1 '.repeat(18)}4711 0 0`)).toBe(4711)
  })

  test.each(['', '7 (a) S 1 2', `7 a S ${'1 '.repeat(18)}4711`, `7 (a) S ${'1 '.repeat(18)}x`])(
    'is not in %j',
    (stat) => {
      expect(() => parseStartTime(stat)).toThrow('the stat of a process does not say when it started')
    },
  )
})
