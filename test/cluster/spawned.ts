// SPDX-License-Identifier: Apache-2.0
// The built programs as processes of their own, as a person runs them. Needs dist/.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const bin = (program: string): string => fileURLToPath(new URL(`../../bin/${program}`, import.meta.url))

/** Why the programs cannot be run; undefined when they can. */
export const notBuilt = existsSync(fileURLToPath(new URL('../../dist/main/addressd.js', import.meta.url)))
  ? undefined
  : 'the programs are not built; run npm run build'

export type LogLine = Readonly<Record<string, any>>

export interface Addressd {
  readonly port: number
  readonly monitoringPort: number
  readonly log: readonly LogLine[]
  /** SIGTERM; the exit code. */
  stop(): Promise<number | null>
  kill(): void
}

/** `addressd serve` on free ports of loopback; resolves when it says that it is ready. */
export async function spawnAddressd(flags: readonly string[]): Promise<Addressd> {
  const free = ['--grpcAddr=127.0.0.1:0', '--httpAddr=', '--monitoringAddr=127.0.0.1:0', '--secureGRPCAddr=']
  const child = spawn(process.execPath, [bin('addressd'), 'serve', ...free, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] ?? '' },
  })
  const onExit = (): void => void child.kill('SIGKILL')
  process.once('exit', onExit)
  const log: LogLine[] = []
  const ready = await readUntilReady(child, log)
  return {
    port: ready['grpc'].port,
    monitoringPort: ready['monitoring'].port,
    log,
    async stop() {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      const [code] = (await gone) as [number | null]
      process.removeListener('exit', onExit)
      return code
    },
    kill() {
      child.kill('SIGKILL')
      process.removeListener('exit', onExit)
    },
  }
}

function readUntilReady(child: ChildProcess, log: LogLine[]): Promise<LogLine> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`addressd ended with ${code}: ${JSON.stringify(log.slice(-3))}`)))
    createInterface({ input: child.stdout! }).on('line', (text) => {
      const line = JSON.parse(text) as LogLine
      log.push(line)
      if (line['msg'] === 'ready') resolve(line)
    })
  })
}

/** Runs `addressctl`; what it says on stderr is dropped. */
export async function runAddressctl(...args: string[]): Promise<{ exit: number | null; output: string }> {
  const child = spawn(process.execPath, [bin('addressctl'), ...args], { stdio: ['ignore', 'pipe', 'ignore'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  const [exit] = (await once(child, 'close')) as [number | null]
  return { exit, output }
}
