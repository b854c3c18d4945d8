// SPDX-License-Identifier: Apache-2.0
// The probe set as ipsets with a rule of iptables on the host, by the programs of the node, in a worker. An entry's comment is the pod's uid. With IPv6
// off no program and no set of IPv6 is touched.

import { Fatal } from '../../base/errors.js'
import { formatIp, parseIp } from '../../base/ip.js'
import type { Netns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import {
  type HostRuleOptions,
  isHostChain,
  nothingOnHost,
  probeSetNames,
  selectHostFamilies,
  selectWantedOnHost,
} from './host-rules.js'
import { type Command, type CommandRecord, type CommandResult, takeResult, toCommandError } from './iptables-command.js'
import { runCommandsJob } from './iptables-job-keys.js'
import { parseDump } from './iptables-dump.js'
import { type WantedTable, formatRestore } from './iptables-plan.js'
import { type IptablesTools, type IptablesVariant, restoreCommand } from './iptables-tools.js'
import type { ProbeEntry } from './probe-set-nft.js'
import type { Family } from './rule-table.js'

export interface IpsetStoreOptions {
  readonly workers: NetnsWorkers
  readonly hostNetns: Netns | undefined
  readonly variant: IptablesVariant
  readonly tools: IptablesTools
  readonly ipv6: boolean
  readonly onCommand: ((record: CommandRecord) => void) | undefined
}

const familyNames = { 4: 'inet', 6: 'inet6' } as const
const otherVariant = { nft: 'legacy', legacy: 'nft' } as const

export class IpsetStore {
  readonly #options: IpsetStoreOptions
  #isOtherClean = false

  constructor(options: IpsetStoreOptions) {
    this.#options = options
  }

  /** Makes or mends sets and rules; entries that are there stay, unless the set cannot say whose they are. */
  async ensure(rule: HostRuleOptions): Promise<boolean> {
    const { variant, tools } = this.#options
    let changed = false
    const present = await this.#listNames()
    for (const family of this.#families) changed = (await this.#ensureSet(family, present)) || changed
    for (const family of this.#families) {
      changed = (await this.#ensureRule(variant, family, selectWantedOnHost(family, rule))) || changed
    }
    if (this.#isOtherClean) return changed
    // Once: what was made before the node's iptables changed its variant.
    const other = otherVariant[variant]
    for (const family of this.#families) {
      if (tools[other][family] !== undefined) await this.#ensureRule(other, family, nothingOnHost)
    }
    this.#isOtherClean = true
    return changed
  }

  async put(entries: readonly ProbeEntry[]): Promise<void> {
    // Replaces the comment of an entry that is there, in one step.
    await this.#restore(
      entries.map(({ ip, uid }) => `add ${probeSetNames[familyOf(ip)]} ${ip} comment "${uid}" -exist`),
    )
  }

  async drop(ips: readonly string[]): Promise<void> {
    if (ips.length > 0) await this.#restore(ips.map((ip) => `del ${probeSetNames[familyOf(ip)]} ${ip} -exist`))
  }

  async list(): Promise<readonly ProbeEntry[]> {
    const present = await this.#listNames()
    const names = this.#families.map((family) => probeSetNames[family]).filter((name) => present.has(name))
    const entries: ProbeEntry[] = []
    for (const name of names) entries.push(...parseEntries(await this.#save(name)))
    return entries
  }

  /** Rules first: a set that a rule uses cannot go. */
  async destroy(): Promise<void> {
    for (const family of this.#families) await this.#ensureRule(this.#options.variant, family, nothingOnHost)
    const present = await this.#listNames()
    const names = this.#families.map((family) => probeSetNames[family]).filter((name) => present.has(name))
    if (names.length > 0) await this.#restore(names.map((name) => `destroy ${name}`))
  }

  get #families(): readonly Family[] {
    return selectHostFamilies(this.#options)
  }

  async #ensureSet(family: Family, present: ReadonlySet<string>): Promise<boolean> {
    const name = probeSetNames[family]
    const create = (as: string): string => `create ${as} hash:ip family ${familyNames[family]} comment`
    if (!present.has(name)) {
      await this.#restore([create(name)])
      return true
    }
    const header = (await this.#save(name)).split('\n').find((line) => line.startsWith('create ')) ?? ''
    const words = header.split(' ')
    const isSameType = words[2] === 'hash:ip' && words.includes(familyNames[family])
    if (isSameType && words.includes('comment')) return false
    const spare = `${name}-new`
    if (isSameType) {
      const clear = present.has(spare) ? [`destroy ${spare}`] : []
      await this.#restore([...clear, create(spare), `swap ${spare} ${name}`, `destroy ${spare}`])
    } else {
      // Nothing can be put in the place of a set of another type while a rule uses it.
      await this.#ensureRule(this.#options.variant, family, nothingOnHost)
      await this.#restore([`destroy ${name}`, create(name)])
    }
    return true
  }

  async #ensureRule(
    variant: IptablesVariant,
    family: Family,
    wanted: ReadonlyMap<string, WantedTable>,
  ): Promise<boolean> {
    const { tools } = this.#options
    const programs = tools[variant][family]
    if (programs === undefined) {
      throw new Fatal(`the programs of iptables-${variant} for IPv${family} are not installed`)
    }
    const dump = parseDump((await this.#must({ file: programs.save, args: [] })).stdout)
    const text = formatRestore(dump, wanted, isHostChain)
    if (text === '') return false
    await this.#must(restoreCommand(tools, variant, programs.restore, text))
    return true
  }

  get #ipset(): string {
    const { ipset } = this.#options.tools
    if (ipset === undefined) throw new Fatal('the program ipset is not installed; kubelet cannot probe pods without it')
    return ipset
  }

  async #listNames(): Promise<ReadonlySet<string>> {
    const { stdout } = await this.#must({ file: this.#ipset, args: ['list', '-n'] })
    return new Set(stdout.split('\n').map((name) => name.trim()))
  }

  async #save(name: string): Promise<string> {
    return (await this.#must({ file: this.#ipset, args: ['save', name] })).stdout
  }

  async #restore(lines: readonly string[]): Promise<void> {
    await this.#must({ file: this.#ipset, args: ['restore'], stdin: `${lines.join('\n')}\n` })
  }

  async #must(command: Command): Promise<CommandResult> {
    const { workers, hostNetns, onCommand } = this.#options
    const ran = await workers.run(runCommandsJob, { netns: hostNetns, args: [command], occupies: true })
    const [result] = takeResult(ran, onCommand)
    if (result === undefined) throw new Error('a program that was run has a result')
    if (result.exitCode !== 0) throw toCommandError(result)
    return result
  }
}

/** Lines of `ipset save`. Entries without a comment are of nobody that we know: their uid is empty. */
function parseEntries(text: string): readonly ProbeEntry[] {
  return text.split('\n').flatMap((line) => {
    const match = /^add \S+ (\S+)(.*)$/.exec(line)
    const bytes = parseIp(match?.[1] ?? '')
    if (bytes === undefined) return []
    return [{ ip: formatIp(bytes), uid: /comment "([^"]*)"/.exec(match?.[2] ?? '')?.[1] ?? '' }]
  })
}

function familyOf(ip: string): Family {
  return ip.includes(':') ? 6 : 4
}
