// SPDX-License-Identifier: Apache-2.0
// A real ztunnel, found by the variable ZTUNNEL or on the PATH, in a network of its own. Knows its fixed ports and its pages; judges nothing.

import { type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, mkdirSync } from 'node:fs'
import type { Socket } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { whyNoSpaces, type NetSpace } from './net-space.js'

const adminPort = 15000
const statsPort = 15020
const readyPort = 15021
const socksPort = 15080
/** Where it is told to find addressd, in its own network. */
export const controlPort = 15012

/** Path of the program. */
export function findZtunnel(): string | undefined {
  const named = process.env['ZTUNNEL'] ?? ''
  const paths = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'ztunnel'))
  return (named === '' ? paths : [named]).find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Why no ztunnel can run here; undefined when one can. */
export function whyNoZtunnel(): string | undefined {
  if (findZtunnel() === undefined) {
    const named = process.env['ZTUNNEL'] ?? ''
    return named === '' ? 'no ztunnel on the PATH, and ZTUNNEL names none' : `ZTUNNEL names no program: ${named}`
  }
  return whyNoSpaces()
}

/** What it says it holds, in an order that means something. */
export interface Held {
  readonly workloads: readonly unknown[]
  readonly services: readonly unknown[]
  readonly policies: readonly unknown[]
  readonly stagedServices: unknown
}

export interface CertificateState {
  readonly identity: string
  readonly state: string
  readonly certChain: readonly { readonly pem: string }[]
}

/** A pod whose namespace it was given. */
export interface ServedPod {
  readonly state: string
  readonly info: { readonly name: string; readonly namespace: string; readonly serviceAccount: string }
}

export interface ZtunnelOptions {
  readonly space: NetSpace
  /** PEM of the roots of addressd. */
  readonly root: string
  /** Over what is the same for all; undefined takes away. */
  readonly env: Readonly<Record<string, string | undefined>>
}

export class Ztunnel {
  readonly space: NetSpace
  /** Its log, line by line. */
  readonly lines: string[] = []
  readonly #child: ChildProcess
  readonly #kill = (): void => void this.#child.kill('SIGKILL')

  constructor({ space, root, env }: ZtunnelOptions) {
    this.space = space
    const program = findZtunnel()
    if (program === undefined) throw new Error('there is no ztunnel')
    const cwd = join(space.folder, 'ztunnel')
    mkdirSync(cwd, { recursive: true })
    const server = `https://localhost:${controlPort}`
    this.#child = space.spawn(program, ['proxy', 'ztunnel'], {
      cwd,
      env: {
        PATH: process.env['PATH'],
        XDS_ADDRESS: server,
        CA_ADDRESS: server,
        XDS_ROOT_CA: root,
        CA_ROOT_CA: root,
        NODE_NAME: 'node1',
        POD_NAME: 'ztunnel-test',
        POD_NAMESPACE: 'istio-system',
        INSTANCE_IP: '127.0.0.1',
        ISTIO_META_CLUSTER_ID: 'Kubernetes',
        NETWORK: '',
        ENABLE_ORIG_SRC: 'false',
        IPV6_ENABLED: 'false',
        RUST_LOG: 'info',
        TERMINATION_GRACE_PERIOD_SECONDS: '2',
        ZTUNNEL_WORKER_THREADS: '1',
        ...env,
      },
    })
    process.once('exit', this.#kill)
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      let rest = ''
      stream?.setEncoding('utf8')
      stream?.on('data', (text: string) => {
        const lines = (rest + text).split('\n')
        rest = lines.pop() ?? ''
        this.lines.push(...lines)
      })
    }
  }

  get pid(): number {
    const { pid } = this.#child
    if (pid === undefined) throw new Error('ztunnel did not start')
    return pid
  }

  /** Code or signal with which it ended. */
  async ended(): Promise<number | string> {
    const { exitCode, signalCode } = this.#child
    if (exitCode === null && signalCode === null) await once(this.#child, 'exit')
    return this.#child.exitCode ?? this.#child.signalCode ?? ''
  }

  signal(name: 'SIGTERM' | 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(name)
  }

  async isReady(): Promise<boolean> {
    return (await this.readiness()) === 200
  }

  /** Status of its readiness page. */
  async readiness(): Promise<number> {
    return (await this.space.get(readyPort, '/healthz/ready')).status
  }

  /** Pods whose namespaces it was given, by uid. */
  async served(): Promise<Readonly<Record<string, ServedPod>>> {
    return (await this.#dump()).workloadState
  }

  async #dump(): Promise<any> {
    const { status, text } = await this.space.get(adminPort, '/config_dump')
    if (status !== 200) throw new Error(`config_dump: ${status} ${text}`)
    return JSON.parse(text)
  }

  async held(): Promise<Held> {
    return toHeld(await this.#dump())
  }

  async certificates(): Promise<readonly CertificateState[]> {
    return (await this.#dump()).certificates
  }

  /** Sum of the series of a metric that carry these labels. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const { text } = await this.space.get(statsPort, '/metrics')
    const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`)
    return text
      .split('\n')
      .filter(
        (line) =>
          (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && wanted.every((label) => line.includes(label)),
      )
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
  }

  /**
   * A connection as an application of its workload opens one to this IPv4 address. It resolves once ztunnel has taken the order; whether
   * anybody is reached shows in what comes back.
   */
  async open(ip: string, port: number): Promise<Socket> {
    const socket = this.space.dial('127.0.0.1', socksPort)
    socket.write(Uint8Array.of(5, 1, 0))
    await readBytes(socket, 2)
    socket.write(Uint8Array.of(5, 1, 0, 1, ...ip.split('.').map(Number), port >> 8, port & 255))
    const [, code] = await readBytes(socket, 10)
    if (code !== 0) throw new Error(`ztunnel refuses with code ${code}`)
    return socket
  }

  /** Sends a word to an application and gives what comes back until the end. */
  async ask(ip: string, port: number, word: string): Promise<string> {
    const socket = await this.open(ip, port)
    let answer = ''
    socket.on('data', (bytes: Buffer) => (answer += bytes.toString()))
    socket.end(word)
    await once(socket, 'close')
    return answer
  }

  async stop(): Promise<void> {
    process.removeListener('exit', this.#kill)
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }
}

/** Puts what has no order of its own into one. */
export function toHeld(dump: any): Held {
  const by = (list: readonly any[], ...keys: readonly string[]): any[] =>
    list.toSorted((a, b) => {
      for (const key of keys) if (a[key] !== b[key]) return a[key] < b[key] ? -1 : 1
      return 0
    })
  const workloads = dump.workloads.map((workload: any) =>
    workload.services === undefined ? workload : { ...workload, services: workload.services.toSorted() },
  )
  return {
    workloads: by(workloads, 'uid'),
    services: by(dump.services, 'hostname', 'namespace'),
    policies: by(dump.policies, 'namespace', 'name'),
    stagedServices: dump.stagedServices,
  }
}

/** Asks again and again until it is so; whoever cannot be asked yet has not said so. */
export async function until(isSo: () => Promise<boolean>, what: () => string, timeoutMs = 20_000): Promise<void> {
  const end = performance.now() + timeoutMs
  for (;;) {
    if (await isSo().catch(() => false)) return
    if (performance.now() > end) throw new Error(`waited ${timeoutMs} ms for ${what()}`)
    await sleep(20)
  }
}

async function readBytes(socket: Socket, count: number): Promise<Buffer> {
  for (;;) {
    const bytes = socket.read(count) as Buffer | null
    if (bytes !== null) return bytes
    if (socket.destroyed || socket.readableEnded) throw new Error('the connection ended')
    await Promise.race([once(socket, 'readable'), once(socket, 'close')])
  }
}
