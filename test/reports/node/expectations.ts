// SPDX-License-Identifier: Apache-2.0
// What a step of a report about the node agent may expect, each key as a function that gives sentences about what differs. A key that is not known here
// fails the case by name.

import { formatIp, parseIp } from '../../../src/base/ip.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import type { SeenRecord } from '../../support/fake-node-ztunnel.js'
import type { TestNetns } from '../../support/test-netns.js'
import { isRecord } from '../cases.js'
import { checkLog, checkNoLog, checkText } from '../expectation-parts.js'
import { mismatches, sameTexts } from '../match.js'
import type { NodeRoom } from './room.js'
import { foreignRules, oldRules } from './strange-rules.js'

/** What was so before the step, or is taken before the checks themselves change it. */
export interface Before {
  readonly records: number
  readonly commands: readonly string[]
  /** Namespaces open after the first step. */
  readonly namespaces: number | undefined
}

type Check = (room: NodeRoom, expected: never, before: Before) => string[] | Promise<string[]>

/** Everything in which the room differs from `expect`. */
export async function check(
  room: NodeRoom,
  expect: Readonly<Record<string, unknown>>,
  before: Before,
): Promise<string[]> {
  const out: string[] = []
  for (const [key, expected] of Object.entries(expect)) {
    const one = (checks as Readonly<Record<string, Check | undefined>>)[key]
    if (one === undefined) out.push(`unknown expectation ${key}`)
    else out.push(...(await one(room, expected as never, before)).map((text) => `${key}: ${text}`))
  }
  return out
}

interface StoredPod {
  readonly metadata: { readonly uid: string; readonly annotations?: Readonly<Record<string, string>> }
  readonly status?: { readonly podIP?: string; readonly podIPs?: readonly { readonly ip: string }[] }
}

function podOf(room: NodeRoom, key: string): StoredPod | undefined {
  const [namespace, name = ''] = key.split('/')
  return room.api.get('Pod', namespace, name) as StoredPod | undefined
}

const redirectionOf = (pod: StoredPod | undefined): string | undefined =>
  pod?.metadata.annotations?.['ambient.istio.io/redirection']

/** Tags of what is in a namespace. */
async function tagsOf(room: NodeRoom, name: string): Promise<string[]> {
  const netns = room.host.netns(name)
  if (netns === undefined) return [`no namespace ${name}`]
  const { rules } = await room.plane()
  const handle = openNetnsFile(netns.path)
  try {
    const state = await rules.check(handle, room.ruleOptions)
    const out: string[] = state === 'complete' ? ['ours'] : []
    if (oldRules.isThere(netns)) out.push('old')
    else if (state === 'different' && hasRedirection(netns)) out.push('ours, but not whole')
    if (foreignRules.isThere(netns)) out.push('foreign')
    return out
  } finally {
    handle.close()
  }
}

/** Whether anything leads to a ztunnel in the pod: the host's own rule for probes does not. */
function hasRedirection(netns: TestNetns): boolean {
  const dumps = ['iptables-nft-save', 'iptables-legacy-save', 'ip6tables-nft-save', 'ip6tables-legacy-save']
  const texts = [netns.run(['nft', 'list', 'ruleset']), ...dumps.map((tool) => netns.tryRun([tool]).stdout)]
  return texts.some((text) => /1500[168]/.test(text))
}

const canonical = (ip: string): string => {
  const bytes = parseIp(ip)
  return bytes === undefined ? ip : formatIp(bytes)
}

async function checkEnrolled(room: NodeRoom, expected: Readonly<Record<string, boolean>>): Promise<string[]> {
  const out: string[] = []
  const { probeSet } = await room.plane()
  const set = await probeSet.list()
  for (const [key, wanted] of Object.entries(expected)) {
    const pod = podOf(room, key)
    if (pod === undefined) {
      out.push(`${key} does not exist`)
      continue
    }
    const { uid } = pod.metadata
    const home = room.homes.get(uid)
    const ips = (pod.status?.podIPs ?? []).map(({ ip }) => canonical(ip))
    const own = [...set].filter(([, owner]) => owner === uid).map(([ip]) => ip)
    const held = room.newest?.holds.get(uid)
    const facts = {
      rules: home !== undefined && (await tagsOf(room, home)).some((tag) => tag.startsWith('ours') || tag === 'old'),
      annotation: redirectionOf(pod) === 'enabled',
      probeSet: wanted ? ips.every((ip) => own.includes(ip)) : own.length > 0,
      ztunnel: room.newest === undefined ? wanted : held !== undefined && (!wanted || room.host.nameOf(held) === home),
    }
    for (const [fact, holds] of Object.entries(facts))
      if (holds !== wanted) out.push(`${key} ${wanted ? 'lacks' : 'still has'} ${fact}`)
    if (!wanted && redirectionOf(pod) !== undefined) out.push(`${key} is still marked ${String(redirectionOf(pod))}`)
  }
  return out
}

function formatRecord(room: NodeRoom, record: SeenRecord): string {
  const netns = record.kind === 'add' ? ` ${String(room.host.nameOf(record.inodes[0]))}` : ''
  return `${record.kind} ${record.uid}${netns}`.trim()
}

interface ZdsExpectation {
  readonly to: string
  readonly add?: string
  readonly netns?: string
  readonly keep?: string
  readonly del?: string
  readonly snapshotSent?: true
}

function formatExpected(item: ZdsExpectation): string {
  if (item.add !== undefined) return `add ${item.add} ${item.netns ?? ''}`.trim()
  if (item.keep !== undefined) return `keep ${item.keep}`
  if (item.del !== undefined) return `del ${item.del}`
  return 'snapshotSent'
}

/** In order; those of one snapshot, which all come before its end, in any order; an add that comes once more does not count. */
function normalize(list: readonly string[], isSnapshot: boolean): string[] {
  const seen = new Set<string>()
  const once = list.filter((text) => !text.startsWith('add ') || (!seen.has(text) && seen.add(text)))
  const end = isSnapshot ? once.indexOf('snapshotSent') : -1
  return end < 0 ? once : [...once.slice(0, end).sort(), ...once.slice(end)]
}

function checkZds(room: NodeRoom, expected: readonly ZdsExpectation[]): string[] {
  return [...room.ztunnels].flatMap(([name, { fake, seen }]) => {
    const wanted = normalize(expected.filter(({ to }) => to === name).map(formatExpected), true)
    const got = normalize(
      fake.records.slice(seen).map((record) => formatRecord(room, record)),
      true,
    )
    return JSON.stringify(got) === JSON.stringify(wanted)
      ? []
      : [`${name} was sent ${JSON.stringify(got)}, expected ${JSON.stringify(wanted)}`]
  })
}

function checkHeld(room: NodeRoom, expected: Readonly<Record<string, Readonly<Record<string, string>>>>): string[] {
  return Object.entries(expected).flatMap(([name, holds]) => {
    const fake = room.ztunnels.get(name)?.fake
    if (fake === undefined) return [`no ztunnel ${name}`]
    if (fake.exitCode !== undefined) return [`${name} ended with ${fake.exitCode}`]
    const got = [...fake.holds].map(([uid, inode]) => `${uid} ${String(room.host.nameOf(inode))}`)
    const wanted = Object.entries(holds).map(([uid, netns]) => `${uid} ${netns}`)
    return sameTexts(got, wanted, name)
  })
}

function globToRegExp(pattern: string): RegExp {
  return new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`)
}

const lastRun = (room: NodeRoom) => room.runs.at(-1)

const checks = {
  enrolled: checkEnrolled,
  annotation: (room, expected: Readonly<Record<string, string | null>>) =>
    Object.entries(expected).flatMap(([key, value]) => mismatches(redirectionOf(podOf(room, key)), value, key)),
  rules: async (room, expected: Readonly<Record<string, readonly string[]>>) => {
    const out: string[] = []
    for (const [name, tags] of Object.entries(expected)) out.push(...sameTexts(await tagsOf(room, name), tags, name))
    return out
  },
  zds: checkZds,
  zdsHeld: checkHeld,
  zdsConnection: (room, expected: Readonly<Record<string, 'open' | 'closed'>>) =>
    Object.entries(expected).flatMap(([name, state]) =>
      mismatches(room.ztunnels.get(name)?.fake.isConnected === true ? 'open' : 'closed', state, name),
    ),
  probeSet: async (room, expected: unknown) => {
    const set = Object.fromEntries(await (await room.plane()).probeSet.list())
    if (isRecord(expected) && '$has' in expected) return mismatches(set, expected, 'probe set')
    const text = ([ip, uid]: readonly [string, unknown]): string => `${canonical(ip)} ${String(uid)}`
    return sameTexts(Object.entries(set).map(text), Object.entries(expected as object).map(text), 'probe set')
  },
  commands: (_room, expected: Readonly<Record<string, number>>, before) =>
    Object.entries(expected).flatMap(([pattern, count]) => {
      const ran = before.commands.filter((command) => globToRegExp(pattern).test(command))
      return ran.length === count ? [] : [`${pattern} ran ${ran.length} times: ${ran.join(', ')}`]
    }),
  backend: (room, expected: string) => {
    const { backend } = room.node?.parts?.rules ?? {}
    return mismatches(backend === 'iptables-legacy' ? 'legacy' : backend === undefined ? undefined : 'nft', expected)
  },
  fds: (room, _expected: 'start', before) =>
    before.namespaces === undefined || room.openNamespaces() === before.namespaces
      ? []
      : [`${room.openNamespaces()} namespaces are open, ${before.namespaces} were after the first step`],
  ready: (room, expected: boolean) => mismatches(room.node?.ready() ?? false, expected, 'ready'),
  log: (room, expected: unknown, before) => checkLog(room.log.records.slice(before.records), expected),
  noLog: (room, level: string, before) => checkNoLog(room.log.records.slice(before.records), level),
  exit: (room, expected: unknown) => mismatches(lastRun(room)?.exit, expected, 'exit code'),
  exits: (room, expected: readonly unknown[]) =>
    mismatches(
      room.runs.slice(-expected.length).map(({ exit }) => exit),
      expected,
      'exit codes',
    ),
  output: (room, expected: Record<string, unknown>) => {
    const run = lastRun(room)
    const { prevResult, ...rest } = expected
    const out = checkText(run?.output ?? '', rest, 'output')
    if (prevResult === true && run?.output.trim() !== run?.prevResult)
      out.push(`output is not prevResult: ${String(run?.output)}`)
    return out
  },
  error: (room, expected: unknown) => checkText(lastRun(room)?.error ?? '', expected, 'error'),
  took: (room, expected: unknown) => mismatches(lastRun(room)?.tookMs, expected, 'milliseconds'),
} satisfies Record<string, (room: NodeRoom, expected: never, before: Before) => string[] | Promise<string[]>>
