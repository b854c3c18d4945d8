// SPDX-License-Identifier: Apache-2.0
// The parts of the node agent that reach into the kernel: worker threads, the host's namespace, the backend for rules and the probe set that goes with it.

import { existsSync } from 'node:fs'
import { Fatal, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { NetnsFinder, PodRules, ProbeSet } from '../node-agent/contracts.js'
import { createNetnsFinder } from '../node-agent/netns/finder.js'
import { openHostNetns, openNetnsFile } from '../node-agent/netns/handle.js'
import type { Netns } from '../node-agent/netns/netns.js'
import { createNetnsWorkers, type NetnsWorkers } from '../node-agent/netns/workers.js'
import { chooseBackend } from '../node-agent/rules/backend-choice.js'
import { createIptablesRules, removeIptablesLeftovers } from '../node-agent/rules/iptables-rules.js'
import { findNodeTools, toNamedTools, type NodeTools } from '../node-agent/rules/iptables-tools.js'
import { createNftablesRules } from '../node-agent/rules/nftables.js'
import { createProbeSet } from '../node-agent/rules/probe-set.js'
import type { HostPlaces } from './node-places.js'
import type { NodeSettings } from './node-settings-table.js'

export interface DataPlane {
  readonly rules: PodRules
  readonly probeSet: ProbeSet
}

export interface KernelOptions {
  readonly settings: NodeSettings
  readonly places: HostPlaces
  /** Folders of programs, when the settings name none. */
  readonly path: string
  readonly log: Logger
}

/** What is there before anything is decided. */
export class Kernel {
  readonly workers: NetnsWorkers
  readonly finder: NetnsFinder
  readonly #path: string
  /** Jobs inside namespaces: those at work, and all since the start. */
  readonly work = { underWay: 0, activity: 0 }
  readonly #options: KernelOptions
  readonly #hostNetns: Netns

  /** Throws Fatal when the host's namespace cannot be seen. */
  constructor(options: KernelOptions) {
    const { places, log } = options
    this.#options = options
    this.#path = options.settings.toolPath !== '' ? options.settings.toolPath : options.path
    this.#hostNetns = openNodeNetns(options)
    this.workers = this.#count(createNetnsWorkers({ log: log.child({ scope: 'netns' }) }))
    this.finder = createNetnsFinder({
      procRoot: places.procRoot,
      hostPrefix: places.prefix,
      workers: this.workers,
      log: log.child({ scope: 'netns' }),
      hostNetns: this.#hostNetns,
    })
  }

  /** The programs that are there now. */
  get tools(): NodeTools {
    return findNodeTools(this.#path)
  }

  /** Rejects with Fatal that names what is missing. May be tried again. */
  async openDataPlane(): Promise<DataPlane> {
    const { settings, places } = this.#options
    const { workers } = this
    const log = this.#options.log.child({ scope: 'rules' })
    const hostNetns = settings.switchToHostNetns ? this.#hostNetns : undefined
    const { tools } = this
    const { nativeNftables, forceIptablesBinary, ipv6 } = settings
    const chosen = await chooseBackend({ nativeNftables, forceIptablesBinary, workers, hostNetns, tools, ipv6, log })
    const lockFolder = existsSync(settings.runFolder) ? { lockFolder: settings.runFolder } : {}
    const shared = { workers, removeStrangeChains: settings.reconcileOnStartup, ...lockFolder }
    const named = toNamedTools(tools)
    const rules =
      chosen.backend === 'nftables'
        ? createNftablesRules({
            ...shared,
            log,
            removeLegacyLeftovers: (netns) => removeIptablesLeftovers({ ...shared, netns, tools: named }),
          })
        : createIptablesRules({ ...chosen, ...shared, log })
    const { probeAddress4, probeAddress6 } = settings
    const { procRoot } = places
    const probeSet = createProbeSet({
      ...{ chosen, workers, hostNetns, procRoot, ipv6, probeAddress4, probeAddress6, log },
      // Where objects come from files there need be no kubelet; nearly everywhere it is root.
      ...(settings.files === '' ? {} : { kubeletUid: 0 }),
    })
    return { rules, probeSet }
  }

  #count(workers: NetnsWorkers): NetnsWorkers {
    const { work } = this
    return {
      async run(job, request) {
        work.underWay++
        work.activity++
        try {
          return await workers.run(job, request)
        } finally {
          work.underWay--
        }
      },
      close: () => workers.close(),
    }
  }

  async close(): Promise<void> {
    await this.workers.close()
    this.#hostNetns.close()
  }
}

/** The namespace that no pod may be said to have. Throws Fatal when it cannot be told. */
function openNodeNetns({ settings, places, log }: KernelOptions): Netns {
  const { procRoot } = places
  try {
    return openHostNetns(procRoot)
  } catch (error) {
    const why = `the network namespace of the host's process 1 cannot be opened at ${procRoot}/1/ns/net (${formatError(error)})`
    if (settings.switchToHostNetns) {
      throw new Fatal(`${why}; the agent needs the host's /proc and the capability SYS_PTRACE`, error)
    }
    // The settings say that this agent is on the host's network itself.
    log.warn(
      {
        procRoot,
        error: formatError(error),
        hint: "give the agent the capability SYS_PTRACE and the host's processes: hostPID, or ADDRESSD_HOST_PROC at a mount of the host's /proc",
      },
      'process 1 cannot be looked at; the namespace of this agent is taken for the host',
    )
    return openNetnsFile('/proc/self/ns/net')
  }
}
