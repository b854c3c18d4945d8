// SPDX-License-Identifier: Apache-2.0
// The rules of a pod as iptables keeps them, for people who look: chains and jumps of the mesh, of both variants, and nothing of others.

import type { Netns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import { takeResult } from './iptables-command.js'
import { runCommandsJob } from './iptables-job-keys.js'
import type { NodeTools } from './iptables-tools.js'
import type { Family } from './rule-table.js'

export interface ShowIptablesOptions {
  readonly workers: NetnsWorkers
  readonly netns: Netns
  readonly tools: NodeTools
  readonly ipv6: boolean
}

/** One line a rule, headed by variant, family and table. Programs that are not there, or know no table, show nothing. */
export async function showIptables({ workers, netns, tools, ipv6 }: ShowIptablesOptions): Promise<readonly string[]> {
  const families: readonly Family[] = ipv6 ? [4, 6] : [4]
  const dumps = (['nft', 'legacy'] as const).flatMap((variant) =>
    families.flatMap((family) => {
      const file = tools[variant][family]?.save
      return file === undefined ? [] : [{ title: `iptables-${variant}, IPv${family}`, command: { file, args: [] } }]
    }),
  )
  const commands = dumps.map(({ command }) => command)
  const ran = await workers.run(runCommandsJob, { netns, args: commands, occupies: true })
  const results = takeResult(ran, undefined)
  return dumps.flatMap(({ title }, i) => selectRules(title, results[i]?.stdout ?? ''))
}

function selectRules(title: string, dump: string): readonly string[] {
  const lines: string[] = []
  let table = ''
  for (const line of dump.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1)
    else if (line.startsWith('-A') && line.includes('ISTIO_')) lines.push(`${title}, ${table}: ${line}`)
  }
  return lines
}
