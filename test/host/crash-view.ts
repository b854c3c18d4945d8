// SPDX-License-Identifier: Apache-2.0
// What can be seen of pods from outside the agent: the kernel by its own programs, the descriptors of a process by procfs. Shares no code with the
// product.

import fs from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { TestNetns } from '../support/test-netns.js'

const longestMs = 40_000

/** Until it is so; what is waited for is another program. Throws, with what `explain` says, when it never is. */
export async function untilSo(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  explain: () => string = () => '',
): Promise<void> {
  const end = performance.now() + longestMs
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`it never came to be that ${what}\n${explain()}`)
    await wait(20)
  }
}

/** All that an agent may leave in a pod, as lines: rules of every kind, IP rules, the table of returning packets, the setting for open connections. */
export function readPodKernel(netns: TestNetns): readonly string[] {
  const script = [
    'nft list ruleset',
    'iptables-legacy-save',
    'ip6tables-legacy-save',
    'for f in -4 -6; do ip $f rule | sed "s/^/ip$f rule /"; ip $f route show table 100 2>/dev/null | sed "s/^/ip$f route /"; done',
    'echo tcp_loose $(cat /proc/sys/net/netfilter/nf_conntrack_tcp_loose)',
  ]
  return toRuleLines(netns.run(['sh', '-c', script.join('; ')]))
}

/** Each rule with its table and chain, chains by name, for their order says nothing. What holds no rule is nothing, but for tables with names of their own. */
function toRuleLines(text: string): readonly string[] {
  const plainTables = /^table (ip|ip6) (nat|mangle|raw|filter) \{$/
  const out: [where: string, line: string][] = []
  let where: string[] = []
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line === '' || line.startsWith('#') || line.startsWith('type ')) continue
    if (line === '}') where = where.slice(0, -1)
    else if (line.endsWith('{')) {
      where = [...where, line.replace(/ \{$/, '')]
      if (where.length === 1 && !plainTables.test(line)) out.push([line, line])
    } else if (where.length > 0) {
      const rule = line.replace(/counter packets \d+ bytes \d+/, 'counter')
      out.push([where.join(' '), `${where.join(' ')}: ${rule}`])
    } else if (/^(-A|ip-|tcp_loose)/.test(line)) out.push(['', line])
  }
  return out.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, line]) => line)
}

/** Address to uid, of whichever backend keeps the set on the host. */
export function readProbeSet(host: TestNetns): ReadonlyMap<string, string> {
  const sets = ['istio-inpod-probes-v4', 'istio-inpod-probes-v6']
  const entries = new Map<string, string>()
  for (const set of sets) {
    const nft = host.tryRun(['nft', 'list', 'set', 'inet', 'istio-ambient-nat', set]).stdout
    const ipset = host.tryRun(['ipset', 'save', set]).stdout
    for (const [, ip = '', uid = ''] of [
      ...nft.matchAll(/([0-9a-f.:]+) comment "([^"]*)"/g),
      ...ipset.matchAll(/^add \S+ (\S+) comment "([^"]*)"/gm),
    ])
      entries.set(ip, uid)
  }
  return entries
}

/** Inodes of the namespaces that a process has open, with how often. */
export function readOpenNamespaces(pid: number): ReadonlyMap<string, number> {
  const nsfs = fs.statSync('/proc/self/ns/net').dev
  const folder = `/proc/${pid}/fd`
  const out = new Map<string, number>()
  for (const fd of fs.readdirSync(folder)) {
    try {
      const { dev, ino } = fs.statSync(`${folder}/${fd}`)
      if (dev === nsfs) out.set(String(ino), (out.get(String(ino)) ?? 0) + 1)
    } catch {
      // closed meanwhile
    }
  }
  return out
}

export function countDescriptors(pid: number): number {
  return fs.readdirSync(`/proc/${pid}/fd`).length
}
