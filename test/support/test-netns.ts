// SPDX-License-Identifier: Apache-2.0
// Network namespaces for tests: named, with addresses and links between them, all taken down by close(). Never touches the machine's own namespace; a
// test's "host" is one of these too.

import { spawnSync } from 'node:child_process'

/** One namespace. */
export interface TestNetns {
  /** As `ip netns` knows it. */
  readonly name: string
  /** `/var/run/netns/<name>`. */
  readonly path: string
  /** Runs a program inside and gives back what it printed; throws, with what it said, when it fails. `input` goes to its stdin. */
  run(command: readonly string[], input?: string): string
  /** The same for a program that may fail. */
  tryRun(
    command: readonly string[],
    input?: string,
  ): { readonly status: number | null; readonly stdout: string; readonly stderr: string }
  /** `10.1.0.1/24`, `fd00::1/64`; usable at once. The interface defaults to lo. */
  addAddress(address: string, device?: string): void
  /** Takes it down before the others. The namespace lives on while somebody has it open. Idempotent. */
  remove(): void
}

/** One end of a link. */
export interface LinkEnd {
  readonly netns: TestNetns
  readonly device: string
  readonly addresses: readonly string[]
}

/** Makes namespaces and takes all of them down. */
export interface TestNetworks {
  /** A namespace with lo up. `label` of letters, digits and `-` makes its name readable. */
  add(label: string): TestNetns
  /** A veth pair between two, both ends up. */
  link(one: LinkEnd, other: LinkEnd): void
  /** Idempotent. */
  close(): void
}

let lastNumber = 0

function tryProgram(command: string, args: readonly string[], input?: string): ReturnType<TestNetns['tryRun']> {
  const { error, status, stdout, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    timeout: 30_000,
    maxBuffer: 64 * 1024 * 1024,
    ...(input === undefined ? {} : { input }),
  })
  if (error !== undefined) throw error
  return { status, stdout, stderr }
}

function program(command: string, args: readonly string[], input?: string): string {
  const { status, stdout, stderr } = tryProgram(command, args, input)
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${String(status)}: ${stderr.trim()}`)
  return stdout
}

class Namespace implements TestNetns {
  readonly path: string
  #isThere = true

  constructor(readonly name: string) {
    this.path = `/var/run/netns/${name}`
    program('ip', ['netns', 'add', name])
    program('ip', ['-n', name, 'link', 'set', 'lo', 'up'])
  }

  run(command: readonly string[], input?: string): string {
    return program('nsenter', [`--net=${this.path}`, '--', ...command], input)
  }

  tryRun(command: readonly string[], input?: string): ReturnType<TestNetns['tryRun']> {
    return tryProgram('nsenter', [`--net=${this.path}`, '--', ...command], input)
  }

  addAddress(address: string, device = 'lo'): void {
    const usableAtOnce = address.includes(':') ? ['nodad'] : []
    program('ip', ['-n', this.name, 'address', 'add', address, 'dev', device, ...usableAtOnce])
  }

  remove(): void {
    if (!this.#isThere) return
    this.#isThere = false
    program('ip', ['netns', 'delete', this.name])
  }
}

/** Needs root. */
export function createTestNetworks(): TestNetworks {
  const made: TestNetns[] = []
  return {
    add(label) {
      lastNumber += 1
      const netns = new Namespace(`adt-${process.pid}-${lastNumber}-${label}`)
      made.push(netns)
      return netns
    },
    link(one, other) {
      const pair = [one.device, 'netns', one.netns.name, 'type', 'veth', 'peer', 'name', other.device]
      program('ip', ['link', 'add', ...pair, 'netns', other.netns.name])
      for (const end of [one, other]) {
        program('ip', ['-n', end.netns.name, 'link', 'set', end.device, 'up'])
        for (const address of end.addresses) end.netns.addAddress(address, end.device)
      }
    },
    close() {
      const failures: unknown[] = []
      for (const netns of made.splice(0)) {
        try {
          netns.remove()
        } catch (error) {
          failures.push(error)
        }
      }
      if (failures.length > 0) throw new AggregateError(failures, 'namespaces are left')
    },
  }
}
