// SPDX-License-Identifier: Apache-2.0
// A program: makes, looks at and takes out the rules of pods in namespaces that it is told on stdin, one after the other or all at once, and says what each
// cost. `node-rules-program.js nftables|iptables-nft|iptables-legacy|plain-nft|plain-legacy`.

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { silentLogger } from '../../src/base/log.js'
import type { PodRuleOptions, PodRules } from '../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../src/node-agent/netns/handle.js'
import type { Netns } from '../../src/node-agent/netns/netns.js'
import { createNetnsWorkers } from '../../src/node-agent/netns/workers.js'
import { createIptablesRules } from '../../src/node-agent/rules/iptables-rules.js'
import { findNodeTools, toNamedTools } from '../../src/node-agent/rules/iptables-tools.js'
import { createNftablesRules } from '../../src/node-agent/rules/nftables.js'
import { measureCost, serveQuestions, type Cost } from './node-cost.js'
import { PlainRules } from './node-plain.js'

export type RulesSubject = 'nftables' | 'iptables-nft' | 'iptables-legacy' | 'plain-nft' | 'plain-legacy'
/**
 * `first`: into a namespace without any. `again`: as an agent that was restarted does, which knows of none. `known`: as the regular check does.
 * `asked`: by asking for each rule; of the plain way alone.
 */
export type RulesStep = 'first' | 'again' | 'known' | 'asked' | 'remove'

export interface RulesQuestion {
  readonly step: RulesStep
  readonly paths: readonly string[]
  readonly isAtOnce?: boolean
}

export interface RulesAnswer {
  /** One a namespace; of all together when they were worked on at once. */
  readonly costs: readonly Cost[]
  /** The longest time for which the main thread did not get to its timers. */
  readonly stallMs: number
}

const resolutionMs = 5
const podOptions: PodRuleOptions = {
  ipv6: true,
  dnsCapture: true,
  bypassInbound: false,
  virtualInterfaces: [],
  excludedInboundPorts: [],
  excludedOutboundCidrs: [],
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
}

type Steps = Record<RulesStep, (path: string) => unknown>

function toPlainSteps(suffix: string): Steps {
  const plain = new PlainRules(podOptions, suffix)
  return {
    first: (path) => plain.make(path),
    again: (path) => plain.replace(path),
    known: (path) => plain.check(path),
    asked: (path) => plain.check(path),
    remove: (path) => plain.remove(path),
  }
}

function toSteps(subject: Exclude<RulesSubject, `plain-${string}`>): Steps {
  const log = silentLogger
  const workers = createNetnsWorkers({ log })
  const open = (): PodRules =>
    subject === 'nftables'
      ? createNftablesRules({ workers, removeStrangeChains: true, log })
      : createIptablesRules({
          workers,
          variant: subject === 'iptables-nft' ? 'nft' : 'legacy',
          tools: toNamedTools(findNodeTools(process.env['PATH'] ?? '')),
          removeStrangeChains: true,
          log,
        })
  const rules = open()
  const within = async (path: string, work: (netns: Netns) => Promise<unknown>): Promise<void> => {
    const netns = openNetnsFile(path)
    try {
      await work(netns)
    } finally {
      netns.close()
    }
  }
  const look: Steps['known'] = (path) =>
    within(path, async (netns) => {
      const state = await rules.check(netns, podOptions)
      if (state !== 'complete') throw new Error(`rules that were just made are ${state}`)
    })
  return {
    first: (path) => within(path, (netns) => rules.apply(netns, podOptions)),
    // One that remembers nothing.
    again: (path) => within(path, (netns) => open().apply(netns, podOptions)),
    known: look,
    asked: look,
    remove: (path) => within(path, (netns) => rules.remove(netns)),
  }
}

const subject = process.argv[2] as RulesSubject
const steps = subject.startsWith('plain-')
  ? toPlainSteps(subject.slice('plain'.length))
  : toSteps(subject as 'nftables')

await serveQuestions(async (question) => {
  const { step, paths, isAtOnce = false } = question as unknown as RulesQuestion
  const delay = monitorEventLoopDelay({ resolution: resolutionMs })
  if (isAtOnce) delay.enable()
  const costs: Cost[] = []
  if (isAtOnce) costs.push(await measureCost(() => Promise.all(paths.map((path) => steps[step](path)))))
  else for (const path of paths) costs.push(await measureCost(() => steps[step](path)))
  delay.disable()
  const stallMs = isAtOnce ? Math.max(0, delay.max / 1e6 - resolutionMs) : 0
  return { costs, stallMs }
})
