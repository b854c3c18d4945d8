// SPDX-License-Identifier: Apache-2.0
// A network of its own for programs whose ports are fixed, so that several run beside each other and none is seen from outside. The test reaches in
// through a relay, and chosen ports in there lead out to sockets of the test.

import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const relay = fileURLToPath(new URL('./space-relay.mjs', import.meta.url))

/** Why this machine has no such networks; undefined when it has. */
export function whyNoSpaces(): string | undefined {
  const tried = spawnSync('unshare', ['--net', 'ip', 'link', 'set', 'lo', 'up'], { encoding: 'utf8' })
  if (tried.error !== undefined) return `networks of their own need unshare (util-linux): ${tried.error.message}`
  if (tried.status !== 0) return `networks of their own need root and ip (iproute2): ${tried.stderr.trim()}`
  return undefined
}

/** What listens outside for connections to one port inside. */
export type Outside = (socket: Socket) => void

export class NetSpace {
  readonly folder = mkdtempSync(join(tmpdir(), 'addressd-net-'))
  readonly #outsides: Server[] = []
  readonly #sockets = new Set<Socket>()
  #relay: ChildProcess | undefined
  readonly #kill = (): void => void this.#relay?.kill('SIGKILL')

  /** Ports inside, on every address, and who takes their connections outside. */
  static async open(ports: Readonly<Record<number, Outside>>): Promise<NetSpace> {
    const space = new NetSpace()
    await space.#open(ports)
    return space
  }

  /** Of a process that lives inside. */
  get pid(): number {
    const { pid } = this.#relay ?? {}
    if (pid === undefined) throw new Error('the network is not open')
    return pid
  }

  async #open(ports: Readonly<Record<number, Outside>>): Promise<void> {
    const forwards: string[] = []
    for (const [port, outside] of Object.entries(ports)) {
      const path = join(this.folder, `${port}.sock`)
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        this.#keep(socket)
        outside(socket)
      })
      server.listen(path)
      await once(server, 'listening')
      this.#outsides.push(server)
      forwards.push(`${port}=${path}`)
    }
    const child = spawn('unshare', ['--net', process.execPath, relay, this.folder, ...forwards], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { PATH: process.env['PATH'] },
    })
    this.#relay = child
    process.once('exit', this.#kill)
    const ended = once(child, 'exit').then(() => {
      throw new Error('the relay of a network ended before it was ready')
    })
    await Promise.race([once(child.stdout, 'data'), ended])
    ended.catch(() => undefined)
  }

  /** Runs a program inside to its end; throws what it says when it fails. */
  run(program: string, ...args: readonly string[]): void {
    const { status, stderr, error } = spawnSync('nsenter', [`--net=/proc/${this.pid}/ns/net`, program, ...args], {
      encoding: 'utf8',
    })
    if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr}`)
  }

  /** Starts a program inside. */
  spawn(program: string, args: readonly string[], options: { cwd: string; env: NodeJS.ProcessEnv }): ChildProcess {
    return spawn('nsenter', [`--net=/proc/${this.pid}/ns/net`, program, ...args], {
      ...options,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }

  /** A connection to a place inside. It closes when nobody listens there. */
  dial(host: string, port: number): Socket {
    const socket = connect({ path: join(this.folder, 'dial.sock'), allowHalfOpen: false })
    socket.write(`${host}:${port}\n`)
    return this.#keep(socket)
  }

  /** Asks a web server inside, on loopback. Rejects when nobody answers. */
  async get(port: number, path: string): Promise<{ readonly status: number; readonly text: string }> {
    return await new Promise((resolve, reject) => {
      const headers = { host: `localhost:${port}`, connection: 'close' }
      const asked = request({ path, headers, createConnection: () => this.dial('127.0.0.1', port) }, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (part: string) => (text += part))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
        response.on('error', reject)
      })
      asked.on('error', reject)
      asked.end()
    })
  }

  /** A cable between two of them. Addresses with their prefix lengths, one at each end. */
  static cable(a: NetSpace, addressA: string, b: NetSpace, addressB: string): void {
    a.run('ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(b.pid))
    for (const [space, address] of [
      [a, addressA],
      [b, addressB],
    ] as const) {
      space.run('ip', 'addr', 'add', address, 'dev', 'eth0')
      space.run('ip', 'link', 'set', 'eth0', 'up')
    }
  }

  async close(): Promise<void> {
    process.removeListener('exit', this.#kill)
    const child = this.#relay
    if (child !== undefined && child.exitCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    for (const socket of this.#sockets) socket.destroy()
    for (const server of this.#outsides) server.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket)
    socket.on('close', () => this.#sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    return socket
  }
}
