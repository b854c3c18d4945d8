// SPDX-License-Identifier: Apache-2.0
// A room for tests of rules by programs: namespaces, workers, folders of made-up programs, and a record of every program that ran.

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Fields, Logger } from '../../../src/base/log.js'
import type { PodRuleOptions } from '../../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import type { CommandRecord } from '../../../src/node-agent/rules/iptables-command.js'
import { type TestNetns, createTestNetworks } from '../../support/test-netns.js'

export const plainOptions: PodRuleOptions = {
  ipv6: true,
  dnsCapture: true,
  bypassInbound: false,
  virtualInterfaces: [],
  excludedInboundPorts: [],
  excludedOutboundCidrs: [],
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
}

export class Room {
  readonly lines: { readonly level: string; readonly fields: Fields; readonly message: string }[] = []
  readonly commands: CommandRecord[] = []
  readonly log: Logger = this.#toLogger()
  readonly workers: NetnsWorkers = createNetnsWorkers({ log: this.log })
  readonly onCommand = (record: CommandRecord): void => void this.commands.push(record)
  readonly #networks = createTestNetworks()
  readonly #folder = mkdtempSync(join(tmpdir(), 'adt-rules-'))
  readonly #handles: Netns[] = []
  #folders = 0

  #toLogger(): Logger {
    const at = (level: string) => (fields: Fields, message: string) => void this.lines.push({ level, fields, message })
    const log: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => log }
    return log
  }

  addNetns(label: string): { readonly netns: TestNetns; readonly handle: Netns } {
    const netns = this.#networks.add(label)
    const handle = openNetnsFile(netns.path)
    this.#handles.push(handle)
    return { netns, handle }
  }

  /** A folder of programs: name to the text of a shell script, or to the path of a real program. */
  addPrograms(programs: Readonly<Record<string, string>>): string {
    const folder = join(this.#folder, String((this.#folders += 1)))
    mkdirSync(folder)
    for (const [name, text] of Object.entries(programs)) {
      writeFileSync(
        join(folder, name),
        text.startsWith('/') ? `#!/bin/sh\nexec ${text} "$@"\n` : `#!/bin/sh\n${text}\n`,
      )
      chmodSync(join(folder, name), 0o755)
    }
    return folder
  }

  /** Names of the programs that ran since the last time, in order. */
  takeCommands(): string[] {
    return this.commands.splice(0).map(({ file }) => basename(file))
  }

  async close(): Promise<void> {
    await this.workers.close()
    for (const handle of this.#handles) handle.close()
    this.#networks.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** A script that prints this text. */
export function printing(text: string): string {
  return `cat <<'EOF'\n${text}\nEOF`
}
