// SPDX-License-Identifier: Apache-2.0
// What is measured: addressd as it is shipped, and the yardstick, each a process of its own that reads the same API server.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readCpuMs, startProgram, type Program } from './programs.js'

export interface Subject {
  readonly name: 'addressd' | 'plain'
  readonly pid: number
  readonly port: number
  /** From its start until it served. */
  readonly start: { readonly wallMs: number; readonly cpuMs: number }
  stop(): Promise<void>
}

export interface ApiAccess {
  readonly url: string
  readonly token?: string
  readonly caFile?: string
}

/** The clone, and the folder that the benchmark's own programs were compiled to. */
export const root = process.env['BENCH_ROOT'] ?? ''
export const programFile = (name: string): string => fileURLToPath(new URL(`./${name}.js`, import.meta.url))

const scratch = mkdtempSync(join(tmpdir(), 'addressd-bench-'))
process.once('exit', () => rmSync(scratch, { recursive: true, force: true }))
let files = 0

/** A kubeconfig file for this API server. */
export function writeKubeconfig({ url, token, caFile }: ApiAccess): string {
  const file = join(scratch, `kubeconfig-${++files}`)
  const cluster = { server: url, ...(caFile === undefined ? {} : { 'certificate-authority': caFile }) }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'bench', cluster }],
    users: [{ name: 'bench', user: token === undefined ? {} : { token } }],
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    'current-context': 'bench',
  }
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(config))
  return file
}

export async function startAddressd(api: ApiAccess): Promise<Subject> {
  const off = ['--secureGRPCAddr', '', '--httpAddr', '', '--monitoringAddr', '']
  const args = ['serve', '--kubeconfig', writeKubeconfig(api), '--grpcAddr', '127.0.0.1:0', ...off]
  const beganAt = performance.now()
  const program = startProgram('addressd', join(root, 'bin/addressd'), args)
  const ready = await program.line((line) => line.msg === 'ready')
  return toSubject('addressd', program, { port: Number(ready.grpc.port), wallMs: performance.now() - beganAt })
}

export async function startPlain(api: ApiAccess): Promise<Subject> {
  const args = [api.url, api.token ?? '', ...(api.caFile === undefined ? [] : [api.caFile])]
  const beganAt = performance.now()
  const program = startProgram('the yardstick', process.execPath, [
    '--max-old-space-size=6000',
    programFile('plain-server'),
    ...args,
  ])
  const ready = await program.line((line) => 'port' in line)
  return toSubject('plain', program, { port: Number(ready.port), wallMs: performance.now() - beganAt })
}

function toSubject(name: Subject['name'], program: Program, served: { port: number; wallMs: number }): Subject {
  const start = { wallMs: served.wallMs, cpuMs: readCpuMs(program.pid) }
  return { name, pid: program.pid, port: served.port, start, stop: () => program.stop() }
}

export interface MeshApi extends ApiAccess {
  /** Changes a label of so many pods; resolves with when the API server had answered, in nanoseconds of the monotonic clock. */
  change(pods: number): Promise<number>
  stop(): Promise<void>
}

/** An API server in memory that holds a mesh of this size. */
export async function startMeshApi(pods: number): Promise<MeshApi> {
  const program = startProgram('the API server', process.execPath, [
    '--max-old-space-size=6000',
    programFile('api-server'),
    String(pods),
  ])
  const { url } = (await program.line((line) => 'url' in line)) as { url: string }
  return {
    url,
    async change(count) {
      await (await fetch(`${url}/change?pods=${count}`, { method: 'POST' })).text()
      return Number(process.hrtime.bigint())
    },
    stop: () => program.stop(),
  }
}
