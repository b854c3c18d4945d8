// SPDX-License-Identifier: Apache-2.0
// Recorded rules in pods (iptables, both variants), the choice of a variant, and the node's own rule with its probe set (every backend), on real namespaces.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import type { PodRules, ProbeSet } from '../../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { type ChosenBackend, chooseBackend } from '../../../src/node-agent/rules/backend-choice.js'
import { createIptablesRules } from '../../../src/node-agent/rules/iptables-rules.js'
import { findNodeTools } from '../../../src/node-agent/rules/iptables-tools.js'
import { createNftablesRules } from '../../../src/node-agent/rules/nftables.js'
import { createProbeSet } from '../../../src/node-agent/rules/probe-set.js'
import { type DetectedVariant, detectVariant } from '../../../src/node-agent/rules/variant.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { type TestNetns, createTestNetworks } from '../../support/test-netns.js'
import { casesFolder, listCases } from '../folder.js'
import {
  type RuleCase,
  type RuleStep,
  nothingOurs,
  readRuleCase,
  selectOurs,
  takePodState,
  toPodState,
  toStepOptions,
  toTables,
} from './rules-room.js'

const folder = join(casesFolder('node') ?? '', 'rules')
const cases = casesFolder('node') !== undefined && existsSync(folder) ? listCases(folder).map(readRuleCase) : []
const tools = findNodeTools(process.env['PATH'] ?? '/usr/sbin:/sbin')
const networks = createTestNetworks()
const workers = createNetnsWorkers({ log: silentLogger })
const log = silentLogger

afterAll(async () => {
  await workers.close()
  networks.close()
})

const detected = new Map<string, Promise<DetectedVariant>>()
function detectForced(force: 'nft' | 'legacy'): Promise<DetectedVariant> {
  const found = detected.get(force) ?? detectVariant({ workers, tools, ipv6: true, force, log })
  detected.set(force, found)
  return found
}

async function createRules(backend: string, removeStrangeChains: boolean): Promise<PodRules> {
  if (backend === 'nftables') return createNftablesRules({ workers, removeStrangeChains, log })
  return createIptablesRules({
    ...(await detectForced(backend === 'iptables-legacy' ? 'legacy' : 'nft')),
    workers,
    removeStrangeChains,
    log,
  })
}

function toBackend(name: string, step: RuleStep): string {
  if (step.config?.['Native'] === true) return 'nftables'
  const force = step.config?.['Force']
  return typeof force === 'string' && force !== '' ? `iptables-${force}` : name
}

/** Runs the steps; gives back whether each failed. */
async function runSteps(one: RuleCase, netns: TestNetns): Promise<boolean[]> {
  const handle = openNetnsFile(netns.path)
  const failed: boolean[] = []
  try {
    for (const step of one.input.steps) {
      if (step.do === 'shell') {
        netns.run(['sh', '-c', step.command ?? ''])
        failed.push(false)
        continue
      }
      const rules = await createRules(toBackend(one.input.backend, step), one.input.reconcile)
      try {
        if (step.do === 'enrol') await rules.apply(handle, toStepOptions(one, step))
        else await rules.remove(handle)
        failed.push(false)
      } catch {
        failed.push(true)
      }
    }
  } finally {
    handle.close()
  }
  return failed
}

const variantOf = (backend: string): string => (backend === 'iptables-legacy' ? 'legacy' : 'nft')
const missingFor = (backend: string): string | undefined =>
  hostParts.netns ??
  hostParts.built ??
  (backend === 'iptables-legacy' ? hostParts.iptablesLegacy : hostParts.iptablesNft)

/** The state right after the last step's settings alone, in a namespace of its own. */
async function takeCompleteState(one: RuleCase): Promise<Record<string, unknown>> {
  const steps = one.input.steps.filter(({ do: verb }) => verb !== 'shell').slice(-1)
  const netns = networks.add('whole')
  await runSteps({ ...one, input: { ...one.input, steps } }, netns)
  return selectOurs(takePodState(netns, variantOf(one.input.backend)))
}

async function meetsExpectation(
  one: RuleCase,
  expected: any,
  end: { readonly failed: boolean; readonly state: Record<string, unknown> },
): Promise<boolean> {
  if (expected.failed !== end.failed) return false
  const ours = selectOurs(end.state)
  const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
  if (expected.left === 'nothing' && !isEqual(ours, nothingOurs)) return false
  if (expected.left === 'complete') {
    const whole = await takeCompleteState(one)
    for (const key of Object.keys(whole)) {
      try {
        expect(ours[key]).toEqual(whole[key])
      } catch {
        return false
      }
    }
  }
  const text = JSON.stringify(end.state)
  if (((expected.absent ?? []) as string[]).some((name) => text.includes(name))) return false
  return Object.entries(expected).every(
    ([key, line]) => !/^(ip6?_rule|routes[46])$/.test(key) || (end.state[key] as string[]).includes(line as string),
  )
}

const podCases = cases.filter(
  ({ side, input, result }) => side === undefined && input.backend.startsWith('iptables-') && 'iptables' in result,
)
const detectCases = cases.filter((one) => one.side === undefined && 'backendUsed' in one.result)
const hostCases = cases.filter(({ side }) => side === 'host')

describe('rules in a pod by iptables', () => {
  if (podCases.length === 0) test.skip('there are no recorded cases of it', () => undefined)
  for (const one of podCases) {
    testWith('iptables', missingFor(one.input.backend))(`${one.id}: ${one.about}`, async () => {
      const netns = networks.add('pod')
      for (const command of one.input.before) netns.run(['sh', '-c', command])
      const failed = await runSteps(one, netns)
      const state = takePodState(netns, variantOf(one.input.backend))
      netns.remove()
      if (one.deviation === undefined) {
        expect(failed).toEqual(one.input.steps.map(({ error }) => typeof error === 'string'))
        expect(state).toEqual(toPodState(one.result))
        return
      }
      const ends: readonly unknown[] = [one.deviation.expect].flat()
      const met = await Promise.all(
        ends.map((end) => meetsExpectation(one, end, { failed: failed.at(-1) === true, state })),
      )
      if (!met.includes(true)) expect({ failed, state }).toEqual(ends)
    })
  }
})

describe('the choice of a variant', () => {
  if (detectCases.length === 0) test.skip('there are no recorded cases of it', () => undefined)
  for (const one of detectCases) {
    testWith('iptables', missingFor('nft') ?? missingFor('iptables-legacy'))(`${one.id}: ${one.about}`, async () => {
      const host = networks.add('host')
      for (const command of [...(one.input.hostBefore ?? []), ...one.input.before]) host.run(['sh', '-c', command])
      const hostNetns = openNetnsFile(host.path)
      try {
        const { ipv6 } = one.input
        const forced = one.input.backend === 'auto' ? one.input.config?.['Force'] : undefined
        const force = forced === 'nft' || forced === 'legacy' ? forced : undefined
        const { variant } = await detectVariant({ workers, hostNetns, tools, ipv6, force, log })
        const [deviation] = [one.deviation?.expect].flat()
        expect(`iptables-${variant}`).toBe(deviation?.backendUsed ?? one.result['backendUsed'])
      } finally {
        hostNetns.close()
      }
    })
  }
})

/** Matched on kubelet's user instead of on any socket of the node: the one difference of our rule. */
const toOurRule = (line: string): string => line.replace('--socket-exists', '--uid-owner 0')

interface Entries {
  [ip: string]: string
}

/** Address to uid as the recording has them. */
function toRecordedEntries(state: Readonly<Record<string, any>>): Entries {
  const fromIpset = ((state['ipset'] ?? []) as string[]).flatMap((line) => {
    const match = /^add \S+ (\S+) comment "(.*)"$/.exec(line)
    return match === null ? [] : [[match[1] ?? '', match[2] ?? ''] as const]
  })
  const fromNft = ((state['nft'] ?? []) as any[]).flatMap((object) =>
    ((object.set?.elem ?? []) as any[]).map(({ elem }) => [elem.val as string, elem.comment as string] as const),
  )
  return Object.fromEntries([...fromIpset, ...fromNft])
}

describe("the node's rule and its probe set", () => {
  if (hostCases.length === 0) test.skip('there are no recorded cases of it', () => undefined)
  for (const one of hostCases) {
    const { backend } = one.input
    const missing =
      backend === 'nftables'
        ? (hostParts.netns ?? hostParts.built ?? hostParts.nft)
        : (missingFor(backend) ?? hostParts.ipset)
    testWith(backend === 'nftables' ? 'nft' : 'iptables', missing)(`${one.id}: ${one.about}`, () => runHostCase(one))
  }
})

async function runHostCase(one: RuleCase): Promise<void> {
  const { backend, ipv6, before } = one.input
  const host = networks.add('host')
  for (const command of before) host.run(['sh', '-c', command])
  const hostNetns = openNetnsFile(host.path)
  try {
    const probes = await createHostProbes(backend, { ipv6, hostNetns })
    const twin = one.deviation?.expect?.sameEntriesAs as string | undefined
    const twinPath = join(folder, `${twin ?? ''}.json`)
    const recorded =
      twin !== undefined && existsSync(twinPath) ? (readRuleCase(twinPath).steps ?? []) : (one.steps ?? [])
    // Removal goes by uid alone: what the recording removes later, by another address, is gone at once.
    const gone = new Set<string>()
    for (const [i, step] of (one.steps ?? []).entries()) {
      if (step.do === 'pod-add') gone.delete(step.uid)
      if (step.do === 'pod-remove') gone.add(step.uid)
      let error: unknown = null
      try {
        await runHostStep(probes, step)
      } catch (failure) {
        error = failure
      }
      const mayDiffer = one.deviation !== undefined
      if (!mayDiffer) expect(error === null).toBe(step.error === null)
      if (one.deviation?.expect?.noErrors === true || twin !== undefined) expect(error).toBeNull()
      if (one.deviation?.expect?.mayWork === true) continue
      const wanted = Object.fromEntries(
        Object.entries(toRecordedEntries(recorded[i]?.state ?? {})).filter(([, uid]) => !gone.has(uid)),
      )
      expect(Object.fromEntries(await listEntries(probes, step))).toEqual(wanted)
      if (backend !== 'nftables') compareHostTables(host, backend, step.state)
      else if (twin === undefined) compareHostNft(host, step.state)
    }
  } finally {
    hostNetns.close()
    host.remove()
  }
}

async function createHostProbes(
  backend: string,
  { ipv6, hostNetns }: { readonly ipv6: boolean; readonly hostNetns: ReturnType<typeof openNetnsFile> },
): Promise<ProbeSet> {
  const chosen: ChosenBackend =
    backend === 'nftables'
      ? await chooseBackend({
          nativeNftables: true,
          forceIptablesBinary: undefined,
          workers,
          hostNetns,
          tools,
          ipv6,
          log,
        })
      : await chooseBackend({
          nativeNftables: false,
          forceIptablesBinary: backend === 'iptables-legacy' ? 'legacy' : 'nft',
          workers,
          hostNetns,
          tools,
          ipv6,
          log,
        })
  return createProbeSet({
    chosen,
    workers,
    hostNetns,
    procRoot: '/proc',
    kubeletUid: 0,
    ipv6,
    probeAddress4: '169.254.7.127',
    probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
    log,
  })
}

async function runHostStep(probes: ProbeSet, step: any): Promise<void> {
  if (step.do === 'agent-start') {
    await probes.ensure()
    // No pod is known: what the set holds belongs to none.
    for (const uid of new Set((await probes.list()).values())) await probes.remove(uid)
  } else if (step.do === 'pod-add') await probes.put(step.ip, step.uid)
  else if (step.do === 'pod-remove') await probes.remove(step.uid)
  else if (step.do === 'agent-stop-cleanup') await probes.destroy()
  else expect(step.do).toBe('list')
}

async function listEntries(probes: ProbeSet, step: any): Promise<ReadonlyMap<string, string>> {
  return step.do === 'agent-stop-cleanup' ? new Map() : await probes.list()
}

function compareHostTables(host: TestNetns, backend: string, state: any): void {
  const variant = variantOf(backend)
  const nat = (program: string): unknown => toTables(host.run([program]).split('\n'))['nat']
  const wanted = (lines: string[] | undefined): unknown => toTables((lines ?? []).map(toOurRule))['nat']
  expect(nat(`iptables-${variant}-save`)).toEqual(wanted(state['iptables_nat']))
  expect(nat(`ip6tables-${variant}-save`)).toEqual(wanted(state['ip6tables_nat']))
  const sets = (lines: string[]): string[] => lines.filter((line) => line.startsWith('create ')).sort()
  const found = host
    .run(['ipset', 'save'])
    .split('\n')
    .map((line) => line.trim().replace(/ (bucketsize|initval) \S+/g, ''))
  expect(sets(found)).toEqual(sets(state['ipset']))
}

/** Handles, counters and texts about a set are left out. */
function compareHostNft(host: TestNetns, state: any): void {
  const clean = (objects: any[]): unknown[] =>
    objects
      .filter((object) => object.metainfo === undefined)
      .map((object) =>
        JSON.parse(
          JSON.stringify(object, (key, value) => {
            if (key === 'handle' || key === 'elem') return undefined
            if (key === 'comment' && String(value).startsWith('UUID of')) return undefined
            if (key === 'expr') return (value as any[]).filter((part) => !('counter' in part))
            return value as unknown
          }),
        ),
      )
  const found = JSON.parse(host.run(['nft', '-j', 'list', 'ruleset'])).nftables as any[]
  expect(clean(found)).toEqual(clean(state['nft'] ?? []))
}
