// SPDX-License-Identifier: Apache-2.0
// A real Kubernetes API server with its etcd on loopback, in a folder of its own that goes with it. For tests and benchmarks.
// No controllers, no kubelets: a namespace that is deleted stays Terminating, nothing gives a pod its status but the test.

import { spawn, type ChildProcess } from 'node:child_process'
import { generateKeyPairSync, randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringify } from 'yaml'
import { findApiServer, type ApiServerPrograms } from './apiserver-binary.js'
import { createApiClient, type ApiClient } from './apiserver-client.js'
import { installDefinitions } from './crds.js'

/** For `beforeAll`: a cold build is inside. */
export const apiServerStartTimeoutMs = 30 * 60_000

const readyTimeoutMs = 120_000
const stopTimeoutMs = 10_000

export interface StartOptions {
  /** Definitions to install before it is handed out. */
  readonly crdsFolder?: string | undefined
  /** AlwaysAllow by default. The token is a cluster administrator's under RBAC, too. */
  readonly authorization?: 'AlwaysAllow' | 'RBAC'
  /** Stops everything when it aborts. */
  readonly signal?: AbortSignal
}

export interface ApiServer extends Omit<ApiClient, 'close'> {
  readonly url: string
  readonly token: string
  /** PEM of the authority of the server's certificate, which is valid for 127.0.0.1 and localhost. */
  readonly caFile: string
  readonly kubeconfigPath: string
  /** Its storage, with the JSON gateway under /v3. */
  readonly etcdUrl: string
  /** Where it keeps its logs (`apiserver.log`, `etcd.log`). */
  readonly folder: string
  readonly pid: number
  /** SIGKILL; resolves when it is gone. Etcd stays. */
  kill(): Promise<void>
  /** SIGSTOP: connections stay open and nothing comes. */
  pause(): void
  /** SIGCONT. */
  resume(): void
  /** Kills it if it still runs and starts it on the same port and data. With `compact` every version seen until now is too old for a watch. */
  restart(options?: { readonly compact?: boolean }): Promise<void>
  /** Forgets the history of etcd up to now. The server itself still remembers what it has watched since its start. */
  compact(): Promise<void>
  /** Ends both programs and removes the folder. */
  stop(): Promise<void>
}

/** Starts one, ready to serve; `unavailable` says what the machine lacks. Rejects when it has all and it does not start. */
export async function startApiServer(options: StartOptions = {}): Promise<ApiServer | { unavailable: string }> {
  const programs = await findApiServer(options.signal)
  if ('unavailable' in programs) return programs
  const folder = await mkdtemp(join(tmpdir(), 'addressd-apiserver-'))
  const server = new RealApiServer(programs, folder, await toPorts(3), options)
  try {
    await server.start(options.crdsFolder)
  } catch (error) {
    await server.stop()
    throw error
  }
  return server
}

class RealApiServer implements ApiServer {
  readonly token = randomBytes(16).toString('hex')
  readonly url: string
  readonly caFile: string
  readonly kubeconfigPath: string
  readonly etcdUrl: string
  readonly request: ApiClient['request']
  readonly open: ApiClient['open']
  readonly #client: ApiClient
  readonly #children = new Set<ChildProcess>()
  #apiServer: ChildProcess | undefined
  readonly #killAll = (): void => {
    for (const child of this.#children) child.kill('SIGKILL')
  }
  readonly #onAbort = (): void => void this.stop()

  constructor(
    readonly programs: ApiServerPrograms,
    readonly folder: string,
    readonly ports: readonly number[],
    readonly options: StartOptions,
  ) {
    this.url = `https://127.0.0.1:${ports[0]}`
    this.etcdUrl = `http://127.0.0.1:${ports[1]}`
    this.caFile = join(folder, 'certificates', 'apiserver.crt')
    this.kubeconfigPath = join(folder, 'kubeconfig')
    this.#client = createApiClient({ url: this.url, token: this.token, ca: () => readFileSync(this.caFile, 'utf8') })
    this.request = this.#client.request
    this.open = this.#client.open
    process.once('exit', this.#killAll)
    options.signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get pid(): number {
    return this.#apiServer?.pid ?? 0
  }

  async start(crdsFolder: string | undefined): Promise<void> {
    this.#writeFiles()
    this.#startEtcd()
    await this.#startApiServer()
    if (crdsFolder !== undefined) await installDefinitions(crdsFolder, this.request)
  }

  async kill(): Promise<void> {
    if (this.#apiServer !== undefined) await end(this.#apiServer, 'SIGKILL')
    this.#apiServer = undefined
  }

  pause(): void {
    this.#apiServer?.kill('SIGSTOP')
  }

  resume(): void {
    this.#apiServer?.kill('SIGCONT')
  }

  async restart(options: { readonly compact?: boolean } = {}): Promise<void> {
    await this.kill()
    if (options.compact === true) await this.compact()
    await this.#startApiServer()
  }

  async compact(): Promise<void> {
    // One more revision first: what is compacted is then newer than anything a client was told.
    const put = await this.#askEtcd('/v3/kv/put', { key: toBase64('addressd-test/compacted'), value: '' })
    await this.#askEtcd('/v3/kv/compaction', { revision: put.header.revision, physical: true })
  }

  async stop(): Promise<void> {
    this.options.signal?.removeEventListener('abort', this.#onAbort)
    this.#client.close()
    this.resume()
    await Promise.all([...this.#children].map((child) => end(child, 'SIGKILL')))
    process.removeListener('exit', this.#killAll)
    await rm(this.folder, { recursive: true, force: true })
  }

  #writeFiles(): void {
    const key = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const pem = { format: 'pem' } as const
    this.#write('service-account.key', key.privateKey.export({ ...pem, type: 'pkcs8' }))
    this.#write('service-account.pub', key.publicKey.export({ ...pem, type: 'spki' }))
    this.#write('tokens.csv', `${this.token},addressd-test,addressd-test,system:masters\n`)
    const cluster = { server: this.url, 'certificate-authority': this.caFile }
    const context = { cluster: 'test', user: 'test', namespace: 'default' }
    this.#write(
      'kubeconfig',
      stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name: 'test', cluster }],
        users: [{ name: 'test', user: { token: this.token } }],
        contexts: [{ name: 'test', context }],
        'current-context': 'test',
      }),
    )
  }

  #write(name: string, content: string | Buffer): void {
    writeFileSync(join(this.folder, name), content, { mode: 0o600 })
  }

  #startEtcd(): void {
    const peerUrl = `http://127.0.0.1:${this.ports[2]}`
    const args = {
      'data-dir': join(this.folder, 'etcd'),
      'listen-client-urls': this.etcdUrl,
      'advertise-client-urls': this.etcdUrl,
      'listen-peer-urls': peerUrl,
      'initial-advertise-peer-urls': peerUrl,
      'initial-cluster': `default=${peerUrl}`,
      'quota-backend-bytes': String(4 * 1024 ** 3),
      logger: 'zap',
      'log-level': 'error',
    }
    this.#spawn(this.programs.etcd, args, 'etcd.log')
  }

  async #startApiServer(): Promise<void> {
    const file = (name: string): string => join(this.folder, name)
    const child = this.#spawn(
      this.programs.apiServer,
      {
        'etcd-servers': this.etcdUrl,
        'etcd-compaction-interval': '0',
        'bind-address': '127.0.0.1',
        'advertise-address': '127.0.0.1',
        'secure-port': String(this.ports[0]),
        'cert-dir': file('certificates'),
        // Two families, as the mesh has them.
        'service-cluster-ip-range': '10.96.0.0/16,fd00:10:96::/112',
        // Nothing else announces where the API is, and loopback may not be announced.
        'endpoint-reconciler-type': 'none',
        'service-account-issuer': 'https://kubernetes.default.svc.cluster.local',
        'service-account-key-file': file('service-account.pub'),
        'service-account-signing-key-file': file('service-account.key'),
        'token-auth-file': file('tokens.csv'),
        'authorization-mode': this.options.authorization ?? 'AlwaysAllow',
        // It would wait for a controller that makes service accounts.
        'disable-admission-plugins': 'ServiceAccount',
        'allow-privileged': 'true',
        'watch-cache': 'true',
        'enable-priority-and-fairness': 'false',
        profiling: 'false',
        v: '1',
      },
      'apiserver.log',
    )
    this.#apiServer = child
    const deadline = performance.now() + readyTimeoutMs
    while (!(await this.#isReady())) {
      if (child.exitCode !== null || child.signalCode !== null || performance.now() > deadline) {
        throw new Error(`the API server is not ready: ${this.#tailOf('apiserver.log')} ${this.#tailOf('etcd.log')}`)
      }
      await sleep(50)
    }
  }

  async #isReady(): Promise<boolean> {
    if (!existsSync(this.caFile)) return false
    try {
      return (await this.request('GET', '/readyz')).status === 200
    } catch {
      // Not listening yet.
      return false
    }
  }

  #tailOf(log: string): string {
    return existsSync(join(this.folder, log)) ? readFileSync(join(this.folder, log), 'utf8').slice(-1500) : ''
  }

  #spawn(program: string, args: Readonly<Record<string, string>>, log: string): ChildProcess {
    const out = openSync(join(this.folder, log), 'a')
    const flags = Object.entries(args).map(([name, value]) => `--${name}=${value}`)
    const child = spawn(program, flags, { stdio: ['ignore', out, out], cwd: this.folder })
    closeSync(out)
    child.once('error', (error) => writeFileSync(join(this.folder, log), String(error), { flag: 'a' }))
    child.once('exit', () => this.#children.delete(child))
    this.#children.add(child)
    return child
  }

  async #askEtcd(path: string, body: object): Promise<any> {
    const answer = await fetch(this.etcdUrl + path, { method: 'POST', body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`etcd ${path}: ${answer.status} ${await answer.text()}`)
    return await answer.json()
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const gone = once(child, 'exit', { signal: AbortSignal.timeout(stopTimeoutMs) })
  child.kill(signal)
  await gone
}

function toBase64(text: string): string {
  return Buffer.from(text).toString('base64')
}

/** Below those that the kernel gives to whoever asks for any: nobody comes upon one between now and the start of the program that it is for. */
const lowestPort = 20_000
const highestPort = 32_000

/** Ports of loopback that nobody listens on now. */
async function toPorts(count: number): Promise<readonly number[]> {
  const servers: Server[] = []
  while (servers.length < count) {
    const server = createServer()
    server.listen(randomInt(lowestPort, highestPort), '127.0.0.1')
    try {
      await once(server, 'listening')
      servers.push(server)
    } catch {
      // Taken: another one.
    }
  }
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  for (const server of servers) {
    server.close()
    await once(server, 'close')
  }
  return ports
}
