// SPDX-License-Identifier: Apache-2.0
// Rows about the rules of pods: what making, looking and taking out costs with each backend, beside the plain way, in fresh namespaces, the subjects in
// turn.

import { hostParts } from '../support/host-parts.js'
import { createTestNetworks } from '../support/test-netns.js'
import type { RulesAnswer, RulesQuestion, RulesStep, RulesSubject } from './node-rules-program.js'
import { selectMedian, selectQuantile, startProgram, type Program } from './programs.js'
import type { Row } from './report.js'
import { programFile } from './subjects.js'

export interface Sizes {
  readonly rounds: number
  /** Namespaces a subject and round. */
  readonly netns: number
  /** Pods that come at once. */
  readonly pods: number
  /** Pods that come through the plugin. */
  readonly spare: number
}

type Add = (row: Row) => void

/** How the product is started, too: many pods wait for the kernel at once. */
export const agentEnvironment = { UV_THREADPOOL_SIZE: '16' }

export function startRules(subject: RulesSubject): Program {
  const args = [programFile('node-rules-program'), subject]
  return startProgram(`the program for ${subject}`, process.execPath, args, agentEnvironment)
}

export async function askRules(program: Program, question: RulesQuestion): Promise<RulesAnswer> {
  return (await program.ask(question)) as RulesAnswer
}

interface Series {
  readonly cpuUs: number[]
  readonly wallUs: number[]
}

const productSteps: readonly RulesStep[] = ['first', 'known', 'again', 'remove']
const plainSteps: readonly RulesStep[] = ['first', 'asked', 'again', 'remove']

/** The plain way's programs on this machine; undefined when it has none. */
export function selectPlain(): RulesSubject | undefined {
  if (hostParts.iptablesNft === undefined) return 'plain-nft'
  return hostParts.iptablesLegacy === undefined ? 'plain-legacy' : undefined
}

export async function measureRules(add: Add, { rounds, netns }: Sizes): Promise<void> {
  const plain = selectPlain()
  const products: RulesSubject[] = ['nftables']
  if (hostParts.iptablesNft === undefined) products.push('iptables-nft')
  if (hostParts.iptablesLegacy === undefined) products.push('iptables-legacy')
  const subjects = plain === undefined ? products : [...products, plain]
  const series = new Map<string, Series>()
  const at = (subject: RulesSubject, step: RulesStep): Series => {
    const key = `${subject} ${step}`
    const known = series.get(key) ?? { cpuUs: [], wallUs: [] }
    series.set(key, known)
    return known
  }
  const programs = new Map(subjects.map((subject) => [subject, startRules(subject)]))
  for (let round = 0; round < rounds; round++) {
    for (const [subject, program] of programs) {
      const networks = createTestNetworks()
      try {
        const paths = Array.from({ length: netns }, () => networks.add('bench').path)
        for (const step of subject === plain ? plainSteps : productSteps) {
          const { costs } = await askRules(program, { step, paths })
          at(subject, step).cpuUs.push(...costs.map(({ cpuUs }) => cpuUs))
          at(subject, step).wallUs.push(...costs.map(({ wallUs }) => wallUs))
        }
      } finally {
        networks.close()
      }
    }
  }
  for (const program of programs.values()) await program.stop()
  const names: readonly [RulesStep, string, RulesStep, number][] = [
    ['first', 'rules of a pod made', 'first', 10],
    ['again', 'made again', 'asked', 50],
    ['again', 'made again, beside taking out and making', 'again', 50],
    ['remove', 'taken out', 'remove', 10],
  ]
  for (const product of products) {
    for (const [step, name, plainStep, times] of names) {
      if (product !== 'nftables' && plainStep !== step) continue
      const mine = at(product, step)
      const its = plain === undefined ? undefined : selectMedian(at(plain, plainStep).cpuUs) / 1000
      const p90 = plain === undefined ? '' : `, plain ${toText(selectQuantile(at(plain, plainStep).cpuUs, 0.9))}`
      const wall = `wall ${toText(selectMedian(mine.wallUs))}`
      add({
        figure: `${name}, CPU, ${product}`,
        unit: 'ms',
        addressd: selectMedian(mine.cpuUs) / 1000,
        plain: its,
        ...(product === 'nftables' && its !== undefined ? { target: its / times } : {}),
        note: `p90 ${toText(selectQuantile(mine.cpuUs, 0.9))}${p90}; ${wall}`,
      })
    }
    const known = at(product, 'known')
    add({
      figure: `the regular look at a pod's rules, CPU, ${product}`,
      unit: 'ms',
      addressd: selectMedian(known.cpuUs) / 1000,
      note: `p90 ${toText(selectQuantile(known.cpuUs, 0.9))}`,
    })
  }
}

export function toText(us: number): string {
  return `${(us / 1000).toFixed(us < 10_000 ? 2 : 0)} ms`
}
