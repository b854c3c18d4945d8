// SPDX-License-Identifier: Apache-2.0
// addressd on a folder of objects, inside this process and over real sockets, and networks in which real ztunnels find it at port 15012 of loopback.
// Tokens are of an issuer of the room's own, so that no API server is needed to know who is who.

import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { expect } from '@jest/globals'
import * as jose from 'jose'
import { systemClock } from '../../src/base/clock.js'
import { parseSettings } from '../../src/base/settings.js'
import type { KubeApi } from '../../src/kube/api.js'
import { startServer, type RunningServer } from '../../src/main/serve.js'
import { settingsTable } from '../../src/main/settings-table.js'
import type { KubeObject, ObjectName } from '../address/room.js'
import { LogBook } from '../reports/log-book.js'
import { toExpected } from './expected.js'
import { NetSpace, type Outside } from './net-space.js'
import { controlPort, until, Ztunnel, type Held } from './ztunnel.js'

const issuer = 'https://issuer.test'

export interface RoomOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly flags?: readonly string[]
  /** Read objects from the API server of this kubeconfig, not from the folder. */
  readonly kubeconfig?: string
  /** Read objects from here, not from the folder. */
  readonly api?: KubeApi
}

export class Room {
  readonly log = new LogBook()
  readonly #folder = mkdtempSync(join(tmpdir(), 'addressd-peer-'))
  readonly #objects = new Map<string, KubeObject>()
  readonly #spaces: NetSpace[] = []
  readonly #ztunnels: Ztunnel[] = []
  readonly #servers = new Set<RunningServer>()
  readonly #options: RoomOptions
  #key: jose.CryptoKey | undefined
  #server: RunningServer | undefined
  #clusterId = ''
  /** PEM of the roots when they are in no file. */
  apiRoot: string | undefined

  constructor(options: RoomOptions = {}) {
    this.#options = options
  }

  static async open(objects: readonly KubeObject[], options: RoomOptions = {}): Promise<Room> {
    const room = new Room(options)
    const { publicKey, privateKey } = await jose.generateKeyPair('ES256', { extractable: true })
    room.#key = privateKey
    const keys = [{ ...(await jose.exportJWK(publicKey)), kid: 'test', alg: 'ES256' }]
    writeFileSync(join(room.#folder, 'keys.json'), JSON.stringify({ keys }))
    mkdirSync(join(room.#folder, 'objects'))
    room.change(objects)
    await room.startServer()
    return room
  }

  /** Deletes and sets as one change. */
  change(objects: readonly KubeObject[], gone: readonly ObjectName[] = []): void {
    const keyOf = (kind: string, namespace: string | undefined, name: string): string =>
      [kind, namespace ?? '', name].join(' ')
    for (const { kind, namespace, name } of gone) this.#objects.delete(keyOf(kind, namespace, name))
    for (const object of objects) {
      const { namespace, name } = object.metadata
      this.#objects.set(keyOf(object.kind, namespace, name), object)
    }
    const documents = [...this.#objects.values()].map((object) => JSON.stringify(object))
    writeFileSync(join(this.#folder, 'draft'), documents.join('\n---\n'))
    renameSync(join(this.#folder, 'draft'), join(this.#folder, 'objects', 'objects.yaml'))
  }

  get server(): RunningServer {
    if (this.#server === undefined) throw new Error('addressd is not running')
    return this.#server
  }

  /** Starts an addressd; from now on ztunnels find this one. Others go on running. */
  async startServer(): Promise<RunningServer> {
    const own = ['--grpcAddr=127.0.0.1:0', '--secureGRPCAddr=127.0.0.1:0', '--httpAddr=', '--monitoringAddr=']
    const { kubeconfig, api } = this.#options
    const fromFolder = api === undefined ? ['--files', join(this.#folder, 'objects')] : []
    const from = kubeconfig === undefined ? fromFolder : ['--kubeconfig', kubeconfig]
    const { settings } = parseSettings({
      table: settingsTable,
      argv: [...from, ...own, ...(this.#options.flags ?? [])],
      env: {
        ADDRESSD_ROOT_FILE: join(this.#folder, 'root', 'root.pem'),
        ROOT_CA_DIR: join(this.#folder, 'cacerts'),
        TOKEN_ISSUER: issuer,
        ADDRESSD_TOKEN_KEYS: join(this.#folder, 'keys.json'),
        ...this.#options.env,
      },
      ownPrefix: 'ADDRESSD_',
    })
    const server = await startServer({ settings, clock: systemClock, log: this.log, ...(api !== undefined && { api }) })
    this.#servers.add(server)
    this.#clusterId = settings.clusterId
    await server.started
    this.#server = server
    return server
  }

  /** At once, as when its process is killed. */
  async stopServer(server: RunningServer): Promise<void> {
    this.#servers.delete(server)
    if (this.#server === server) this.#server = undefined
    await server.stop()
  }

  get clusterId(): string {
    return this.#clusterId
  }

  /** PEM of the roots. */
  get root(): string {
    if (this.apiRoot !== undefined) return this.apiRoot
    const text = readFileSync(join(this.#folder, 'root', 'root.pem'), 'utf8')
    return (text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []).join('\n')
  }

  /** A token of a service account, bound to a pod or not. */
  async token(
    namespace: string,
    account: string,
    pod?: { readonly name: string; readonly uid: string },
  ): Promise<string> {
    if (this.#key === undefined) throw new Error('the room is not open')
    const bound = pod && { 'kubernetes.io': { namespace, pod } }
    return await new jose.SignJWT({ ...bound })
      .setProtectedHeader({ alg: 'ES256', kid: 'test' })
      .setIssuer(issuer)
      .setAudience('istio-ca')
      .setSubject(`system:serviceaccount:${namespace}:${account}`)
      .setExpirationTime('1h')
      .sign(this.#key)
  }

  /** A network in which addressd is found at `controlPort`. */
  async openSpace(ports: Readonly<Record<number, Outside>> = {}): Promise<NetSpace> {
    const space = await NetSpace.open({ [controlPort]: (socket) => this.#lead(socket), ...ports })
    this.#spaces.push(space)
    return space
  }

  #lead(socket: Socket): void {
    const port = this.#server?.bound.secureGrpc?.port
    if (port === undefined) socket.destroy()
    else {
      const onwards = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
      pipeline(socket, onwards, () => undefined)
      pipeline(onwards, socket, () => undefined)
    }
  }

  startZtunnel(space: NetSpace, env: Readonly<Record<string, string | undefined>>): Ztunnel {
    const ztunnel = new Ztunnel({ space, root: this.root, env })
    this.#ztunnels.push(ztunnel)
    return ztunnel
  }

  async close(): Promise<void> {
    await Promise.all(this.#ztunnels.map((ztunnel) => ztunnel.stop()))
    await Promise.all(this.#spaces.map((space) => space.close()))
    await Promise.all([...this.#servers].map((server) => server.stop()))
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** What a ztunnel that was told everything holds, by what addressd serves now. */
  expected(node?: string): Held {
    return toExpected(this.server.parts.served.address.store, node)
  }
}

/** Rejects with the difference when it does not come to hold this. */
export async function expectHeld(ztunnel: Ztunnel, wanted: () => Held): Promise<void> {
  try {
    await until(
      async () => JSON.stringify(toSorted(await ztunnel.held())) === JSON.stringify(toSorted(wanted())),
      () => 'the dump',
    )
  } catch {
    expect(await ztunnel.held()).toEqual(wanted())
  }
}

/** Members of objects in the order of their names. */
function toSorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toSorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => [key, toSorted(member)]),
  )
}

export async function expectReady(ztunnel: Ztunnel): Promise<void> {
  await until(
    () => ztunnel.isReady(),
    () => `ztunnel to be ready; its last words:\n${ztunnel.lines.slice(-15).join('\n')}`,
  )
}
