// SPDX-License-Identifier: Apache-2.0
// A program: makes, looks at and takes out the rules of pods in namespaces that it is told on stdin, one after the other or all at once, and says what each
// cost. `node-rules-program.js SUBJECT`.

import { openSync } from 'node:fs'
import { silentLogger } from '../../src/base/log.js'
import type { PodRuleOptions, PodRules } from '../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../src/node-agent/netns/handle.js'
import { NetlinkSocket } from '../../src/node-agent/netns/netlink-socket.js'
import type { Netns } from '../../src/node-agent/netns/netns.js'
import { netlinkNetfilter, setNetns } from '../../src/node-agent/netns/sys.js'
import { createNetnsWorkers } from '../../src/node-agent/netns/workers.js'
import { createIptablesRules } from '../../src/node-agent/rules/iptables-rules.js'
import { findNodeTools, toNamedTools } from '../../src/node-agent/rules/iptables-tools.js'
import { createNftablesRules } from '../../src/node-agent/rules/nftables.js'
import { selectPlan } from '../../src/node-agent/rules/nft-plan.js'
import { measureCost, serveQuestions, StallWatch, type Cost } from './node-cost.js'
import { PlainRules } from './node-plain.js'

export type RulesSubject =
  'nftables' | 'iptables-nft' | 'iptables-legacy' | 'plain-nft' | 'plain-legacy' | 'netlink-waiting'
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

/** The same transaction on this thread, from socket to socket: without IP rules and routes, and nothing is looked at. */
function toWaitingSteps(): Steps {
  const home = openSync('/proc/self/ns/net', 'r')
  const plan = selectPlan(podOptions, 'inet')
  const make = (path: string): void => {
    const netns = openNetnsFile(path)
    setNetns(netns.fd)
    const socket = new NetlinkSocket(netlinkNetfilter)
    setNetns(home)
    socket.send(plan.toBatch('tcp_loose was 1'))
    socket.receive()
    socket.close()
    netns.close()
  }
  return { first: make, again: make, known: make, asked: make, remove: make }
}

function toSteps(subject: 'nftables' | 'iptables-nft' | 'iptables-legacy'): Steps {
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

function selectSteps(subject: RulesSubject): Steps {
  if (subject === 'netlink-waiting') return toWaitingSteps()
  if (subject === 'plain-nft' || subject === 'plain-legacy') return toPlainSteps(subject.slice('plain'.length))
  return toSteps(subject)
}

const steps = selectSteps(process.argv[2] as RulesSubject)

await serveQuestions(async (question) => {
  const { step, paths, isAtOnce = false } = question as unknown as RulesQuestion
  const stalls = new StallWatch()
  if (isAtOnce) stalls.start()
  const costs: Cost[] = []
  if (isAtOnce) costs.push(await measureCost(() => Promise.all(paths.map((path) => steps[step](path)))))
  else for (const path of paths) costs.push(await measureCost(() => steps[step](path)))
  const { stallMs } = stalls.stop()
  return { costs, stallMs }
})
