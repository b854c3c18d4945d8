// SPDX-License-Identifier: Apache-2.0
// A real containerd on a host of its own: namespaces for mounts, network and processes, /run and /var that nobody else sees, a chain of CNI plugins in a
// temporary folder. When its first process dies all of it is gone; only cgroups are left to take away. Never touches the machine's own network.

import { credentials, loadPackageDefinition, type GrpcObject, type ServiceClientConstructor } from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { hostParts } from '../support/host-parts.js'
import { findPlugin, pluginProgram } from '../support/native-plugin.js'
import { formatSleepImage } from './image.js'

const protoFile = fileURLToPath(new URL('./cri.proto', import.meta.url))
const pluginFolder = '/usr/lib/cni'
const image = 'localhost/sleep:test'
const cgroupRoot = '/sys/fs/cgroup'

/** Why there can be no such room on this machine; undefined when there can. */
export function whyNoContainerd(): string | undefined {
  const missing = ['bridge', 'host-local', 'loopback', 'portmap'].filter(
    (name) => !existsSync(join(pluginFolder, name)),
  )
  if (missing.length > 0) return `${pluginFolder} lacks ${missing.join(', ')} (package containernetworking-plugins)`
  if (findBusybox() === undefined) return 'there is no static busybox (package busybox-static)'
  if (spawnSync('setpriv', ['--version']).status !== 0) return 'there is no setpriv (package util-linux)'
  return hostParts.containerd ?? hostParts.netns ?? findPlugin()
}

function findBusybox(): string | undefined {
  return ['/bin/busybox', '/usr/bin/busybox'].find(existsSync)
}

export interface SandboxPod {
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

export interface ContainerdRoom {
  /** What the machine's `/` is to this host, seen from outside: the way to its namespaces and its /proc. */
  readonly hostRoot: string
  /** Starts a pod's sandbox; its id. Rejects with what the runtime says. */
  run(pod: SandboxPod): Promise<string>
  /** Its address. */
  addressOf(sandbox: string): Promise<string>
  /** Takes it down and away. */
  remove(sandbox: string): Promise<void>
  /** Runs a program on this host and gives what it printed. Throws when it fails. */
  onHost(...command: string[]): string
  /** Starts a program on this host that goes on; it ends with the room at the latest. */
  startOnHost(...command: string[]): ChildProcess
  /** Sends a signal to what startOnHost started. */
  signal(started: ChildProcess, signal: NodeJS.Signals): Promise<void>
  close(): Promise<void>
}

/** `pluginConfig` is our entry at the end of the chain. */
export async function openContainerdRoom(pluginConfig: Readonly<Record<string, unknown>>): Promise<ContainerdRoom> {
  const folder = mkdtempSync(join(tmpdir(), 'adt-ctd-'))
  const cgroup = `adt-${process.pid}-${Date.now()}`
  layOut(folder, pluginConfig)
  const log: string[] = []
  const isolated = [
    '--mount',
    '--net',
    '--pid',
    '--propagation',
    'private',
    '--fork',
    '--kill-child=SIGKILL',
    '--mount-proc',
  ]
  // /var/run is a folder here, not a link to /run: a link would lead whoever comes by hostRoot back to the machine's own.
  const setUp =
    'mount -t tmpfs run /run && mount -t tmpfs var /var && mkdir -p /var/lib /var/run/netns && ip link set lo up'
  const script = `${setUp} && { containerd -c "$1" & wait; }`
  // Dies with this process, however that ends.
  const child = spawn(
    'setpriv',
    ['--pdeathsig', 'SIGKILL', 'unshare', ...isolated, 'sh', '-c', script, 'sh', join(folder, 'config.toml')],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  child.stderr.on('data', (part: Buffer) => log.push(part.toString()))
  try {
    return await start(folder, cgroup, child)
  } catch (error) {
    await takeDown(folder, cgroup, child)
    throw new Error(`containerd does not start: ${log.join('').slice(-2_000)}`, { cause: error })
  }
}

function layOut(folder: string, pluginConfig: Readonly<Record<string, unknown>>): void {
  for (const name of ['bin', 'net.d', 'root', 'state', 'opt', 'logs']) mkdirSync(join(folder, name))
  for (const name of readdirSync(pluginFolder)) symlinkSync(join(pluginFolder, name), join(folder, 'bin', name))
  symlinkSync(pluginProgram, join(folder, 'bin', 'istio-cni'))
  const ipam = { type: 'host-local', ranges: [[{ subnet: '10.88.7.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] }
  const chain = {
    cniVersion: '1.0.0',
    name: 'adt',
    plugins: [
      { type: 'bridge', bridge: 'adt0', isGateway: true, ipam },
      { type: 'portmap', capabilities: { portMappings: true } },
      { type: 'istio-cni', ...pluginConfig },
    ],
  }
  writeFileSync(join(folder, 'net.d', '10-adt.conflist'), JSON.stringify(chain))
  writeFileSync(join(folder, 'image.tar'), formatSleepImage(image, readFileSync(findBusybox() ?? '')))
  writeFileSync(join(folder, 'config.toml'), formatConfig(folder))
}

function formatConfig(folder: string): string {
  return `version = 2
root = "${folder}/root"
state = "${folder}/state"
[grpc]
  address = "${folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "${folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${image}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${folder}/bin"
    conf_dir = "${folder}/net.d"
    max_conf_num = 1
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`
}

async function start(folder: string, cgroup: string, child: ChildProcess): Promise<ContainerdRoom> {
  const address = join(folder, 'containerd.sock')
  const client = connect(address)
  await until(async () => (await client.call('Version', {})) !== undefined, child)
  const pid = await findFirstChild(child)
  const enter = ['-t', String(pid), '--mount', '--net', '--pid', '--']
  const onHost = (...command: string[]): string => {
    const { status, stdout, stderr } = spawnSync('nsenter', [...enter, ...command], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`${command.join(' ')}: ${stderr.trim()}`)
    return stdout
  }
  onHost('ctr', '-a', address, '-n', 'k8s.io', 'images', 'import', '--snapshotter', 'native', join(folder, 'image.tar'))
  await until(async () => {
    const { status } = (await client.call('Status', {})) as {
      status: { conditions: { type: string; status: boolean }[] }
    }
    return status.conditions.every((condition) => condition.status)
  }, child)
  return {
    hostRoot: `/proc/${pid}/root`,
    onHost,
    startOnHost: (...command) => spawn('nsenter', [...enter, ...command], { stdio: ['ignore', 'pipe', 'pipe'] }),
    async signal(started, signal) {
      // What was started is nsenter; the program itself is its child.
      process.kill(await findFirstChild(started), signal)
    },
    async run({ namespace, name, uid }) {
      const config = {
        metadata: { namespace, name, uid, attempt: 0 },
        hostname: name,
        log_directory: join(folder, 'logs'),
        linux: { cgroup_parent: `/${cgroup}/kubepods/besteffort/pod${uid}` },
      }
      return ((await client.call('RunPodSandbox', { config })) as { pod_sandbox_id: string }).pod_sandbox_id
    },
    async addressOf(sandbox) {
      const answer = (await client.call('PodSandboxStatus', { pod_sandbox_id: sandbox })) as {
        status: { network: { ip: string } }
      }
      return answer.status.network.ip
    },
    async remove(sandbox) {
      await client.call('StopPodSandbox', { pod_sandbox_id: sandbox })
      await client.call('RemovePodSandbox', { pod_sandbox_id: sandbox })
    },
    async close() {
      client.close()
      await takeDown(folder, cgroup, child)
    },
  }
}

interface CriClient {
  call(method: string, request: object): Promise<unknown>
  close(): void
}

function connect(address: string): CriClient {
  const definition = loadPackageDefinition(loadSync(protoFile, { longs: Number, defaults: true, keepCase: true }))
  const Service = ((definition['runtime'] as GrpcObject)['v1'] as GrpcObject)[
    'RuntimeService'
  ] as ServiceClientConstructor
  // Without an authority of its own grpc-js sends the path as one, which the server refuses.
  const client = new Service(`unix:${address}`, credentials.createInsecure(), { 'grpc.default_authority': 'localhost' })
  return {
    call: (method, request) =>
      new Promise((resolve, reject) => {
        const deadline = Date.now() + 30_000
        const act = (client as unknown as Record<string, (...args: unknown[]) => void>)[method]
        act?.call(client, request, { deadline }, (error: Error | null, answer: unknown) => {
          if (error === null) resolve(answer)
          else reject(error)
        })
      }),
    close: () => client.close(),
  }
}

/** Until it is so, at most half a minute of real time: what is waited for is another program. */
async function until(isSo: () => Promise<boolean>, child: ChildProcess): Promise<void> {
  let last: unknown
  for (let tries = 0; tries < 300; tries++) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`, { cause: last })
    try {
      if (await isSo()) return
    } catch (error) {
      last = error
    }
    await wait(100)
  }
  throw new Error('it is not ready after half a minute', { cause: last })
}

/** The number, here, of the process that a program of ours forked. */
async function findFirstChild(child: ChildProcess): Promise<number> {
  const path = `/proc/${child.pid ?? 0}/task/${child.pid ?? 0}/children`
  let pid = 0
  await until(() => {
    pid = Number(readFileSync(path, 'utf8').trim().split(' ')[0])
    return Promise.resolve(pid > 0)
  }, child)
  return pid
}

async function takeDown(folder: string, cgroup: string, child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const over = once(child, 'exit')
    // Its child, the first process in there, is killed with it, and everything else with that.
    child.kill('SIGKILL')
    await over
  }
  const paths = [...readdirSync(cgroupRoot).map((name) => join(cgroupRoot, name, cgroup)), join(cgroupRoot, cgroup)]
  await removeCgroups(paths)
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
}

/** What was killed a moment ago may still be counted there. */
async function removeCgroups(paths: readonly string[]): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      paths.forEach(removeCgroup)
      return
    } catch (error) {
      if (tries === 50) throw error
      await wait(100)
    }
  }
}

function removeCgroup(path: string): void {
  if (!existsSync(path)) return
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) removeCgroup(join(path, entry.name))
  rmdirSync(path)
}
