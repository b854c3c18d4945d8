// SPDX-License-Identifier: Apache-2.0
// The command line of the fake ztunnel. Prints one JSON line whenever what it holds changes; reads commands from stdin, one a line.

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { FakeNodeZtunnel } from './fake-node-ztunnel.js'
import type { Answer } from './fake-node-ztunnel.js'
import { FakeZtunnel } from './fake-ztunnel.js'

const usage = `fake-ztunnel --zds PATH [--answers KEY=ANSWER,...] [--listeners] [--no-reconnect]
             [--xds HOST:PORT [--xds-root FILE] [--xds-token FILE] [--node NAME]]

KEY is the uid of a pod, "snapshot" (the end of the snapshot) or "*".
ANSWER is ok, silence, close, garbage, long, twice, error:TEXT or after:MILLISECONDS.
--listeners    enters each namespace and listens on 15001, 15006 and 15008 there (root)
Lines on stdin: "answer KEY ANSWER", "disconnect", "say HEX", "resolve NETWORK/ADDRESS", "state".
`

/** Throws at what is none. */
export function parseAnswer(text: string): Answer {
  const [kind = '', rest] = [text.split(':')[0], text.slice(text.indexOf(':') + 1)]
  if (kind === 'error') return { error: rest }
  if (kind === 'after') return { after: Number(rest) }
  for (const plain of ['ok', 'silence', 'close', 'garbage', 'long', 'twice'] as const) if (text === plain) return plain
  throw new Error(`"${text}" is no answer`)
}

export async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      zds: { type: 'string' },
      answers: { type: 'string', default: '' },
      listeners: { type: 'boolean', default: false },
      'no-reconnect': { type: 'boolean', default: false },
      xds: { type: 'string' },
      'xds-root': { type: 'string' },
      'xds-token': { type: 'string' },
      node: { type: 'string', default: 'node-1' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help || values.zds === undefined) {
    process.stdout.write(usage)
    process.exitCode = values.help ? 0 : 2
    return
  }
  const answers = values.answers.split(',').filter((pair) => pair !== '')
  const ztunnel = new FakeNodeZtunnel({
    zds: values.zds,
    listeners: values.listeners,
    reconnect: !values['no-reconnect'],
    answers: Object.fromEntries(
      answers.map((pair) => [pair.slice(0, pair.indexOf('=')), parseAnswer(pair.slice(pair.indexOf('=') + 1))]),
    ),
  })
  const addresses = values.xds === undefined ? undefined : connectXds(values.xds, values)
  const print = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
  let printed = ''
  const printState = (isAsked: boolean): void => {
    const state = toState(ztunnel)
    const text = JSON.stringify(state)
    if (isAsked || text !== printed) print(state)
    printed = text
  }
  ztunnel.onChange = () => {
    printState(false)
    if (ztunnel.exitCode !== undefined) process.exit(ztunnel.exitCode)
  }
  process.on('SIGTERM', () => {
    ztunnel.stop()
    process.exit(0)
  })
  // Its timers do not keep the process alive, and the agent may be away.
  setInterval(() => undefined, 1 << 30)
  // Real ones connect only once they know something.
  await addresses?.ready()
  ztunnel.start()
  for await (const line of createInterface({ input: process.stdin })) {
    const [command = '', ...words] = line.trim().split(' ')
    if (command === 'answer') ztunnel.answer(words[0] ?? '*', parseAnswer(words.slice(1).join(' ')))
    else if (command === 'disconnect') ztunnel.disconnect()
    else if (command === 'say') await ztunnel.say(Buffer.from(words[0] ?? '', 'hex'))
    else if (command === 'resolve') print({ resolved: await addresses?.resolve(words[0] ?? '') })
    else if (command === 'state') printState(true)
    else print({ error: `no command "${command}"` })
  }
}

function toState(ztunnel: FakeNodeZtunnel): Record<string, unknown> {
  const { connections, isConnected, isReady, pending, holds, records } = ztunnel
  const inodes = Object.fromEntries([...holds].map(([uid, inode]) => [uid, String(inode)]))
  return { connections, isConnected, isReady, pending, holds: inodes, records: records.length }
}

function connectXds(
  address: string,
  values: { readonly 'xds-root'?: string; readonly 'xds-token'?: string; readonly node: string },
): FakeZtunnel {
  const at = address.lastIndexOf(':')
  const { 'xds-root': root, 'xds-token': token, node } = values
  return new FakeZtunnel({
    host: address.slice(0, at),
    port: Number(address.slice(at + 1)),
    ...(root === undefined ? {} : { root: readFileSync(root, 'utf8') }),
    token: token === undefined ? '' : readFileSync(token, 'utf8').trim(),
    node,
    onDemand: true,
  })
}
