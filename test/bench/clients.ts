// SPDX-License-Identifier: Apache-2.0
// Clients that drain a server: the C program where there is a compiler, else its Node twin. Also the one client that comes back with everything
// it holds.

import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { connect } from 'node:http2'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { FrameParser, frameMessage } from '../../src/wire/grpc-frames.js'
import { loadProtos } from '../../src/wire/protos.js'
import type { Json } from './mesh.js'
import { startProgram, type Program } from './programs.js'
import { deltaPath, encodeRequest } from './requests.js'
import { programFile, root } from './subjects.js'

interface Command {
  readonly command: string
  readonly args: readonly string[]
  /** For the report. */
  readonly about: string
}

let chosen: Command | undefined

/** Builds the C client into the cache folder when gcc is there. */
export function selectClient(): Command {
  if (chosen !== undefined) return chosen
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'addressd')
  mkdirSync(folder, { recursive: true })
  const built = join(folder, 'bench-drain')
  const source = join(root, 'test/bench/load/drain.c')
  const gcc = spawnSync('gcc', ['-O2', '-o', built, source], { encoding: 'utf8' })
  chosen =
    gcc.status === 0
      ? { command: built, args: [], about: 'one thread of C (test/bench/load/drain.c)' }
      : { command: process.execPath, args: [programFile('drain')], about: 'a Node process, since gcc is not here' }
  return chosen
}

function startClient(args: readonly string[]): Program {
  const { command, args: first } = selectClient()
  return startProgram('the client', command, [...first, ...args])
}

/** Clients that subscribe to everything. */
export class Drain {
  readonly #program: Program

  constructor(port: number, clients: number) {
    this.#program = startClient(['-p', String(port), '-n', String(clients)])
  }

  /** Messages that every client has had. */
  get received(): number {
    return this.#program.lines.filter((line) => line.ev === 'message').length
  }

  /** When the k-th message (0 = the first) was with the first, the middle and the last client. */
  async message(k: number): Promise<{ first: number; p50: number; last: number }> {
    return (await this.#program.line((line) => line.ev === 'message' && line.k === k)) as never
  }

  stop(): Promise<void> {
    return this.#program.stop()
  }
}

export interface AskingFigures {
  readonly p50Us: number
  readonly p99Us: number
}

/** Asks for so many addresses, one at a time on each connection. */
export async function askMany(
  port: number,
  how: { connections: number; requests: number; pods: number },
): Promise<AskingFigures> {
  const { connections, requests, pods } = how
  const program = startClient(['-p', `${port}`, '-n', `${connections}`, '-o', `${requests}`, '-N', `${pods}`])
  const answers = await program.line((line) => line.ev === 'answers')
  await program.stop()
  return answers as unknown as AskingFigures
}

/** One stream: sends one request and resolves with the first response. */
export function exchange(port: number, request: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 64 << 20 } })
    session.on('error', reject)
    session.on('connect', () => session.setLocalWindowSize(64 << 20))
    const headers = { ':method': 'POST', ':path': deltaPath, 'content-type': 'application/grpc', te: 'trailers' }
    const stream = session.request(headers)
    const parser = new FrameParser(1 << 30)
    stream.on('error', reject)
    stream.on('end', () => reject(new Error('the server ended the stream without an answer')))
    stream.on('data', (chunk: Buffer) => {
      const [message] = parser.push(chunk)
      if (message === undefined) return
      resolve(Buffer.from(message))
      session.destroy()
    })
    stream.write(frameMessage(request))
  })
}

/** Everything a server has, by name. */
export async function readAll(port: number): Promise<ReadonlyMap<string, { version: string; address: Json }>> {
  const { messages } = loadProtos()
  const response = messages.deltaDiscoveryResponse.decode(await exchange(port, encodeRequest({ node: 0 })))
  const all = new Map<string, { version: string; address: Json }>()
  for (const { name, version, resource } of response.resources ?? []) {
    const value = resource?.value as Uint8Array | undefined
    all.set(name ?? '', { version: version ?? '', address: messages.address.decode(value ?? new Uint8Array()) })
  }
  return all
}
