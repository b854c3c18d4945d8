// SPDX-License-Identifier: Apache-2.0
// The machine of a report about the node agent: real namespaces, a made-up /proc, folders of configuration and programs, tools that count their calls.

import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createTestNetworks, type TestNetns, type TestNetworks } from '../../support/test-netns.js'
import { isRecord } from '../cases.js'
import { foreignRules, oldRules } from './strange-rules.js'

export interface HostProcess {
  readonly pid: number
  readonly netns: string
  readonly podUid: string
  readonly started: number
}

export interface HostNetns {
  readonly addresses: readonly string[]
  readonly rules: readonly string[]
}

export interface HostState {
  readonly node: string
  readonly netns?: Readonly<Record<string, HostNetns | null>>
  readonly proc?: readonly HostProcess[]
  readonly files?: Readonly<Record<string, unknown>>
  readonly probeSet?: Readonly<Record<string, string>>
  readonly ipv6?: boolean
  readonly iptables?: { readonly legacySave?: string | null; readonly nftSave?: string | null }
}

/** A change: any part of the state, and what somebody does to files and rules. */
export type HostChange = Partial<HostState> & {
  readonly write?: Readonly<Record<string, unknown>>
  readonly remove?: readonly string[]
  readonly flushRules?: readonly string[]
}

const variants = ['', '-legacy', '-nft'] as const
const realFolders = ['/usr/sbin', '/sbin', '/usr/bin', '/bin']

export class Host {
  readonly root = fs.mkdtempSync(path.join(os.tmpdir(), 'adr-'))
  readonly #networks: TestNetworks = createTestNetworks()
  readonly #netns = new Map<string, TestNetns>()
  readonly #tags = new Map<string, readonly string[]>()
  #processes: readonly HostProcess[] = []
  #ipv6 = true
  #iptables: HostState['iptables']
  /** Makes the current rules of the product in a namespace: given by the room, which has the product. */
  applyOurs: (netnsPath: string) => Promise<void> = () => Promise.reject(new Error('no rules to apply yet'))

  constructor() {
    for (const folder of ['net.d', 'bin', 'run', 'proc', 'tools']) fs.mkdirSync(path.join(this.root, folder))
    const host = this.#networks.add('host')
    addAddress(host, '192.0.2.10')
    this.#netns.set('host', host)
    this.#writeTools()
  }

  /** A path below the host's own folders: `net.d/x`, `bin/x`, `run/x`. */
  at(relative: string): string {
    return path.join(this.root, relative)
  }

  get processes(): readonly HostProcess[] {
    return this.#processes
  }

  netns(name: string): TestNetns | undefined {
    return this.#netns.get(name)
  }

  names(): readonly string[] {
    return [...this.#netns.keys()]
  }

  /** Name of the namespace with this inode. */
  nameOf(inode: bigint | undefined): string | undefined {
    for (const [name, netns] of this.#netns) if (fs.statSync(netns.path, { bigint: true }).ino === inode) return name
    return undefined
  }

  async change(change: HostChange): Promise<void> {
    for (const [name, netns] of Object.entries(change.netns ?? {})) {
      if (netns === null) {
        this.#netns.get(name)?.remove()
        this.#netns.delete(name)
      } else await this.#setNetns(name, netns)
    }
    if (change.ipv6 !== undefined) this.#ipv6 = change.ipv6
    if (change.iptables !== undefined) this.#iptables = { ...this.#iptables, ...change.iptables }
    if (change.ipv6 !== undefined || change.iptables !== undefined) this.#writeTools()
    if (change.proc !== undefined) {
      this.#processes = change.proc
      this.#writeProcesses()
    }
    for (const [file, content] of Object.entries({ ...change.files, ...change.write })) this.#writeFile(file, content)
    for (const file of change.remove ?? []) this.#remove(file)
    for (const name of change.flushRules ?? []) this.#flush(name)
  }

  /** Programs that were run since the last call of resetCommands, each as `name arguments`. */
  commands(): readonly string[] {
    const file = this.at('commands')
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
  }

  resetCommands(): void {
    fs.rmSync(this.at('commands'), { force: true })
  }

  close(): void {
    this.#networks.close()
    fs.rmSync(this.root, { recursive: true, force: true })
  }

  async #setNetns(name: string, wanted: HostNetns): Promise<void> {
    let netns = this.#netns.get(name)
    if (netns === undefined) {
      netns = this.#networks.add(name.toLowerCase())
      netns.run(['ip', 'link', 'add', 'eth0', 'type', 'bridge'])
      netns.run(['ip', 'link', 'set', 'eth0', 'up'])
      this.#netns.set(name, netns)
    }
    for (const address of wanted.addresses) addAddress(netns, address)
    const had = this.#tags.get(name) ?? []
    this.#tags.set(name, wanted.rules)
    for (const tag of wanted.rules) {
      if (had.includes(tag)) continue
      if (tag === 'ours') await this.applyOurs(netns.path)
      else if (tag === 'old') oldRules.add(netns)
      else if (tag === 'foreign') foreignRules.add(netns)
      else throw new Error(`unknown tag of rules ${tag}`)
    }
  }

  #flush(name: string): void {
    const netns = this.#netns.get(name)
    if (netns === undefined) throw new Error(`no namespace ${name}`)
    netns.run(['nft', 'flush', 'ruleset'])
    for (const tool of ['iptables-legacy', 'ip6tables-legacy'])
      for (const table of ['nat', 'mangle', 'raw']) {
        netns.tryRun([tool, '-t', table, '-F'])
        netns.tryRun([tool, '-t', table, '-X'])
      }
  }

  #writeFile(file: string, content: unknown): void {
    const target = this.at(file)
    fs.mkdirSync(path.dirname(target), { recursive: true })
    const text =
      content === '$same'
        ? fs.readFileSync(target)
        : typeof content === 'string'
          ? content
          : `${JSON.stringify(content, undefined, 2)}\n`
    const temporary = path.join(path.dirname(target), `.tmp-${process.pid}`)
    fs.writeFileSync(temporary, text, { mode: file.startsWith('bin/') ? 0o755 : 0o644 })
    fs.renameSync(temporary, target)
  }

  #remove(file: string): void {
    fs.rmSync(this.at(file), { recursive: true, force: true })
    if (['run/', 'net.d/', 'bin/'].includes(file)) fs.mkdirSync(this.at(file))
  }

  /** Process 1 and a kubelet are always there, on the host's network. */
  #writeProcesses(): void {
    fs.rmSync(this.at('proc'), { recursive: true, force: true })
    const fixed = [
      { pid: 1, netns: 'host', podUid: '', started: 0, name: 'init' },
      { pid: 2, netns: 'host', podUid: '', started: 0, name: 'kubelet' },
    ]
    for (const process of fixed) this.#writeProcess(process)
    for (const process of this.#processes) this.addProcess(process)
  }

  /** One more, beside those that are there. */
  addProcess(process: HostProcess): void {
    this.#writeProcess({ ...process, name: 'app' })
  }

  #writeProcess({ pid, netns, podUid, started, name }: HostProcess & { readonly name: string }): void {
    const folder = this.at(`proc/${pid}`)
    fs.mkdirSync(path.join(folder, 'ns'), { recursive: true })
    const target = this.#netns.get(netns)?.path ?? '/nowhere'
    fs.symlinkSync(target, path.join(folder, 'ns/net'))
    // Field 22 is the start; what stands before it means nothing here.
    const zeros = Array.from({ length: 18 }, () => '0').join(' ')
    fs.writeFileSync(path.join(folder, 'stat'), `${pid} (${name}) S ${zeros} ${started} 0 0\n`)
    const pod = podUid.replaceAll('-', '_')
    const slice =
      podUid === ''
        ? '0::/init.scope\n'
        : `0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod${pod}.slice/cri-containerd-${'c'.repeat(56)}${String(pid).padStart(8, '0')}.scope\n`
    fs.writeFileSync(path.join(folder, 'cgroup'), slice)
    fs.writeFileSync(path.join(folder, 'comm'), `${name}\n`)
    fs.writeFileSync(path.join(folder, 'cmdline'), `/usr/bin/${name}\0`)
    fs.writeFileSync(path.join(folder, 'status'), `Name:\t${name}\nUid:\t0\t0\t0\t0\n`)
  }

  /** The node's tools, each behind a script that writes down its call. */
  #writeTools(): void {
    const folder = this.at('tools')
    fs.rmSync(folder, { recursive: true, force: true })
    fs.mkdirSync(folder)
    for (const name of ['ip', 'nft', 'ipset', 'sh']) this.#writeTool(name, '')
    for (const base of ['iptables', 'ip6tables'])
      for (const variant of variants) {
        const shown = this.#shownDump(variant)
        if (shown === null) continue
        for (const part of ['', '-save', '-restore']) {
          const isWithout = base === 'ip6tables' && !this.#ipv6
          const instead = isWithout ? 'exit 3' : part === '-save' && shown !== undefined ? toDumpScript(shown) : ''
          // Where one variant alone is installed, the plain name is that one's.
          const only = variant === '' && this.#iptables?.nftSave === null ? '-legacy' : variant
          this.#writeTool(`${base}${variant}${part}`, instead, `${base}${only}${part}`)
        }
      }
  }

  /** What `-save` prints instead of the truth; undefined: the truth, null: the programs are not installed. */
  #shownDump(variant: (typeof variants)[number]): string | null | undefined {
    if (this.#iptables === undefined) return undefined
    const { legacySave, nftSave } = this.#iptables
    if (variant === '-legacy') return legacySave
    if (variant === '-nft') return nftSave
    return nftSave ?? (legacySave === null ? null : legacySave)
  }

  #writeTool(name: string, instead: string, realName = name): void {
    const real = realFolders.map((folder) => path.join(folder, realName)).find((file) => fs.existsSync(file))
    if (real === undefined) return
    const lines = ['#!/bin/sh', `echo "${name} $*" >> '${this.at('commands')}'`]
    lines.push(instead.replaceAll('$REAL', real), `exec ${real} "$@"`)
    fs.writeFileSync(path.join(this.at('tools'), name), `${lines.join('\n')}\n`, { mode: 0o755 })
  }
}

/** Shows the given text, and the truth as well once rules of the product are in it. */
function toDumpScript(shown: string): string {
  return [
    'case "$*" in *--version*) ;; *)',
    'real=$($REAL "$@") || exit $?',
    `cat <<'END'`,
    shown.trimEnd(),
    'END',
    'case "$real" in *ISTIO_*) echo "$real" ;; esac',
    'exit 0 ;; esac',
  ].join('\n')
}

function addAddress(netns: TestNetns, address: string): void {
  const device = netns.tryRun(['ip', 'link', 'show', 'eth0']).status === 0 ? 'eth0' : 'lo'
  const length = address.includes(':') ? 128 : 32
  if (!netns.run(['ip', '-o', 'address', 'show']).includes(` ${address}/`)) {
    netns.addAddress(`${address}/${length}`, device)
  }
}

/** Whether a value is a change of a host. */
export function toHostChange(value: unknown): HostChange {
  if (!isRecord(value)) throw new Error(`not a change of the host: ${JSON.stringify(value)}`)
  return value
}
