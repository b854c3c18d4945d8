// SPDX-License-Identifier: Apache-2.0
// Finds the two programs of a real API server, or builds the one that Go can build: once for a machine, whoever asks first.
// For apiserver.ts. Never installs anything.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const moduleFolder = fileURLToPath(new URL('../cluster/apiserver/', import.meta.url))
const release = 'v1.35.4'
const versionPackage = 'k8s.io/component-base/version'
const buildFlags = [
  '-buildvcs=false',
  '-trimpath',
  '-ldflags',
  `-s -w -X ${versionPackage}.gitVersion=${release} -X ${versionPackage}.gitMajor=1 -X ${versionPackage}.gitMinor=35`,
]

export interface ApiServerPrograms {
  readonly etcd: string
  readonly apiServer: string
}

/**
 * The programs: those in KUBEBUILDER_ASSETS when set; else etcd from PATH and an API server built into the cache folder.
 * A cold build takes minutes and says so on stderr; it is begun only on CI and where it was asked for. Rejects when Go is there and the build fails.
 */
export async function findApiServer(signal?: AbortSignal): Promise<ApiServerPrograms | { unavailable: string }> {
  const assets = process.env['KUBEBUILDER_ASSETS']
  if (assets !== undefined && assets !== '') {
    const found = { etcd: join(assets, 'etcd'), apiServer: join(assets, 'kube-apiserver') }
    const missing = Object.values(found).filter((path) => !isExecutable(path))
    return missing.length === 0
      ? found
      : { unavailable: `KUBEBUILDER_ASSETS is set, but there is no ${missing.join(', ')}` }
  }
  const etcd = findOnPath('etcd')
  if (etcd === undefined) {
    return { unavailable: 'etcd is not on PATH (Debian: etcd-server) and KUBEBUILDER_ASSETS is not set' }
  }
  const target = toTarget()
  if (isExecutable(target)) return { etcd, apiServer: target }
  if ((process.env['CI'] ?? process.env['TEST_BUILD_APISERVER'] ?? '') === '') {
    return {
      unavailable: 'no API server has been built on this machine yet; `npm run test:cluster` does, in minutes, with Go',
    }
  }
  const go = findOnPath('go')
  if (go === undefined) return { unavailable: 'Go is not on PATH and KUBEBUILDER_ASSETS is not set' }
  const version = await run(go, ['env', 'GOVERSION'], { signal })
  if (version.code !== 0) return { unavailable: `this Go does not do: ${version.tail}` }
  await buildOnce(go, target, signal)
  return { etcd, apiServer: target }
}

/** The path of the built program: another for each change of what it is built from. */
function toTarget(): string {
  const hash = createHash('sha256').update(`${process.platform}/${process.arch} ${buildFlags.join(' ')}`)
  for (const file of ['go.mod', 'go.sum', 'main.go']) hash.update(readFileSync(join(moduleFolder, file)))
  const cache = process.env['XDG_CACHE_HOME'] ?? ''
  const folder = join(cache === '' ? join(homedir(), '.cache') : cache, 'addressd')
  return join(folder, `kube-apiserver-${hash.digest('hex').slice(0, 16)}`)
}

async function buildOnce(go: string, target: string, signal: AbortSignal | undefined): Promise<void> {
  await mkdir(join(target, '..'), { recursive: true })
  const lock = `${target}.lock`
  for (let waits = 0; ; waits++) {
    if (isExecutable(target)) return
    if (await takeLock(lock)) break
    if (waits % 30 === 0) say('another process builds the API server, waiting for it')
    await sleep(500, undefined, { signal })
  }
  try {
    if (!isExecutable(target)) await build(go, target, signal)
  } finally {
    await rm(lock, { force: true })
  }
}

/** The lock is a file with the pid of its holder; one whose holder is gone is taken over. */
async function takeLock(lock: string): Promise<boolean> {
  try {
    await writeFile(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const holder = Number(await readFile(lock, 'utf8').catch(() => ''))
  // An empty file is a lock that is just being written.
  if (holder > 0 && !isAlive(holder)) await rm(lock, { force: true })
  return false
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function build(go: string, target: string, signal: AbortSignal | undefined): Promise<void> {
  const startMs = performance.now()
  const seconds = (): number => Math.round((performance.now() - startMs) / 1000)
  say(`building a Kubernetes API server ${release} for the tests, once: four to ten minutes on two cores`)
  let packages = 0
  const progress = setInterval(() => say(`building: ${packages} packages done after ${seconds()} s`), 15_000)
  const draft = `${target}.${process.pid}`
  try {
    const built = await run(go, ['build', '-v', ...buildFlags, '-o', draft, '.'], { signal, onLine: () => packages++ })
    if (built.code !== 0) throw new Error(`the API server does not build: ${built.tail}`)
    await rename(draft, target)
    say(`built in ${seconds()} s: ${target}`)
  } finally {
    clearInterval(progress)
    await rm(draft, { force: true })
  }
}

interface RunOptions {
  readonly signal?: AbortSignal | undefined
  onLine?(): void
}

/** Runs a program in the module's folder; its exit code and the end of what it said on stderr. */
function run(program: string, args: readonly string[], options: RunOptions): Promise<{ code: number; tail: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: moduleFolder,
      env: { ...process.env, GOWORK: 'off' },
      stdio: ['ignore', 'ignore', 'pipe'],
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    })
    let tail = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      tail = (tail + text).slice(-2000)
      for (let left = text.split('\n').length - 1; left > 0; left--) options.onLine?.()
    })
    child.once('error', reject)
    child.once('close', (code) => resolve({ code: code ?? -1, tail: tail.trim() }))
  })
}

function findOnPath(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path) && isExecutable(path))
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function say(text: string): void {
  process.stderr.write(`apiserver: ${text}\n`)
}
