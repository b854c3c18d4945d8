// SPDX-License-Identifier: Apache-2.0
// Recorded enrolments by the original's nftables backend, done by ours. Our tables lie otherwise, so the cases are met in what is the same: which steps fail,
// that the rules are whole or gone, IP rules and routes, what others have in the namespace, and that doing it again changes nothing.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { createTestRules, testBackends } from '../../support/rule-backends.js'
import { type TestNetns, createTestNetworks } from '../../support/test-netns.js'
import { casesFolder, listCases } from '../folder.js'
import { type RuleCase, type RuleStep, readRuleCase, toStepOptions } from './rules-room.js'

const folder = join(casesFolder('node') ?? '', 'rules')
const cases = casesFolder('node') !== undefined && existsSync(folder) ? listCases(folder).map(readRuleCase) : []
const podCases = cases.filter(({ side, input }) => side === undefined && input.backend === 'nftables')
const networks = createTestNetworks()
const workers = createNetnsWorkers({ log: silentLogger })

afterAll(async () => {
  await workers.close()
  networks.close()
})

const ownTable = 'addressd-ambient'
const theirTables = ['istio-ambient-nat', 'istio-ambient-mangle', 'istio-ambient-raw']

function toBackendName(step: RuleStep): string {
  if (step.config?.['Native'] !== false) return 'nftables'
  return step.config['Force'] === 'legacy' ? 'iptables-legacy' : 'iptables-nft'
}

/** What somebody does to the original's tables is done to ours. */
function toOurTables(command: string): string {
  return theirTables.reduce((text, name) => text.replaceAll(name, ownTable), command)
}

async function runSteps(one: RuleCase, netns: TestNetns): Promise<boolean[]> {
  const handle = openNetnsFile(netns.path)
  const failed: boolean[] = []
  try {
    for (const step of one.input.steps) {
      try {
        if (step.do === 'shell') {
          netns.tryRun(['sh', '-c', toOurTables(step.command ?? '')])
        } else {
          const backend = testBackends.find(({ name }) => name === toBackendName(step))!
          const rules = await createTestRules(backend, workers, one.input.reconcile)
          if (step.do === 'enrol') await rules.apply(handle, toStepOptions(one, step))
          else await rules.remove(handle)
        }
        failed.push(false)
      } catch {
        failed.push(true)
      }
    }
    return failed
  } finally {
    handle.close()
  }
}

function readLines(netns: TestNetns, ...command: string[]): string[] {
  return netns
    .tryRun(command)
    .stdout.split('\n')
    .map((line) => line.replace(/\s+/g, ' ').trim())
    .filter((line) => line !== '')
}

const readPaths = (netns: TestNetns): Record<string, string[]> => ({
  ip_rule: readLines(netns, 'ip', 'rule', 'show'),
  ip6_rule: readLines(netns, 'ip', '-6', 'rule', 'show'),
  routes4: readLines(netns, 'ip', 'route', 'show', 'table', '100'),
  routes6: readLines(netns, 'ip', '-6', 'route', 'show', 'table', '100'),
})

/** Without handles, counters and what nft says of itself. */
function cleanObjects(objects: readonly any[]): readonly any[] {
  return objects
    .filter((object) => object.metainfo === undefined)
    .map((object) =>
      JSON.parse(JSON.stringify(object, (key, value) => (key === 'handle' || key === 'counter' ? undefined : value))),
    )
}

function readObjects(netns: TestNetns): readonly any[] {
  return cleanObjects(JSON.parse(netns.run(['nft', '-j', 'list', 'ruleset'])).nftables)
}

const tableOf = (object: any): string =>
  object.table?.name ?? object.chain?.table ?? object.rule?.table ?? object.set?.table
const isOurs = (object: any): boolean => [ownTable, ...theirTables].includes(tableOf(object))

/** What the last step's settings alone make in a fresh namespace. */
async function takeWhole(one: RuleCase): Promise<{ objects: readonly any[]; paths: Record<string, string[]> }> {
  const netns = networks.add('whole')
  for (const command of one.input.before.filter((text) => text.startsWith('sysctl'))) netns.run(['sh', '-c', command])
  const steps = one.input.steps.filter(({ do: verb }) => verb === 'enrol').slice(-1)
  await runSteps({ ...one, input: { ...one.input, steps } }, netns)
  const whole = { objects: readObjects(netns).filter(isOurs), paths: readPaths(netns) }
  netns.remove()
  return whole
}

/** The reasons why the namespace is not as this end says; empty when it is. */
async function listMismatches(one: RuleCase, wanted: any, netns: TestNetns, failed: boolean): Promise<string[]> {
  const out: string[] = []
  const objects = readObjects(netns)
  const paths = readPaths(netns)
  if (wanted.failed !== failed) out.push(`failed: ${failed}`)
  if (wanted.left === 'nothing') {
    if (objects.some(isOurs)) out.push('tables of ours are left')
    if (JSON.stringify(paths).includes('0x111') || paths['routes4']!.length > 0 || paths['routes6']!.length > 0) {
      out.push('IP rules or routes are left')
    }
  } else {
    const whole = await takeWhole(one)
    // Compared by the whole text: a rule that is missing, strange or misplaced shows.
    if (JSON.stringify(objects.filter(isOurs)) !== JSON.stringify(whole.objects)) out.push('the rules are not whole')
    if (JSON.stringify(paths) !== JSON.stringify(whole.paths)) out.push('IP rules or routes are not whole')
  }
  const text = JSON.stringify([objects, paths])
  for (const name of (wanted.absent ?? []) as string[]) if (text.includes(name)) out.push(`${name} is there`)
  for (const [key, line] of Object.entries(wanted)) {
    if (/^(ip6?_rule|routes[46])$/.test(key) && !paths[key]!.includes(line as string))
      out.push(`${key} lacks ${String(line)}`)
  }
  return out
}

describe('rules in a pod over netlink', () => {
  if (podCases.length === 0) test.skip('there are no recorded cases of it', () => undefined)
  for (const one of podCases) {
    const missing = hostParts.netns ?? hostParts.built ?? hostParts.nft ?? hostParts.iptablesNft
    testWith('nft', missing)(`${one.id}: ${one.about}`, async () => {
      const netns = networks.add('pod')
      for (const command of one.input.before) netns.run(['sh', '-c', command])
      const failed = await runSteps(one, netns)
      const hasFailed = failed.at(-1) === true
      if (one.deviation === undefined) {
        expect(failed).toEqual(one.input.steps.map((step) => step.do !== 'shell' && typeof step.error === 'string'))
        // What others have is as recorded, and so are IP rules and routes.
        expect(readObjects(netns).filter((object) => !isOurs(object))).toEqual(
          cleanObjects(one.result['nft'] ?? []).filter((object) => !isOurs(object)),
        )
        const { ip_rule, ip6_rule, routes4, routes6 } = one.result
        expect(readPaths(netns)).toEqual({ ip_rule, ip6_rule, routes4, routes6 })
        const isEnrolled = one.input.steps.filter(({ do: verb }) => verb !== 'shell').at(-1)?.do === 'enrol'
        const end = { failed: hasFailed, left: isEnrolled && !hasFailed ? 'complete' : 'nothing' }
        expect(await listMismatches(one, end, netns, hasFailed)).toEqual([])
      } else {
        const ends = [one.deviation.expect].flat()
        const mismatches = await Promise.all(ends.map((end) => listMismatches(one, end, netns, hasFailed)))
        if (!mismatches.some((list) => list.length === 0)) expect(mismatches).toEqual([])
      }
      const before = [readObjects(netns), readPaths(netns)]
      const last = {
        ...one,
        input: { ...one.input, steps: one.input.steps.filter(({ do: verb }) => verb !== 'shell').slice(-1) },
      }
      await runSteps(last, netns)
      expect([readObjects(netns), readPaths(netns)]).toEqual(before)
      netns.remove()
    })
  }
})
