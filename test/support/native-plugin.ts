// SPDX-License-Identifier: Apache-2.0
// The CNI plugin's program for tests: built when it is missing or older than its source, and run as a runtime runs it.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('../../scripts/build-native.mjs', import.meta.url))

export const pluginSource = fileURLToPath(new URL('../../native/addressd-cni.c', import.meta.url))
export const pluginProgram = fileURLToPath(new URL('../../build/native/addressd-cni', import.meta.url))

let looked: { readonly missing: string | undefined } | undefined

/** Builds the plugin where that is needed. The reason why it cannot be had, undefined when it is there; for testWith('gcc', ...). */
export function findPlugin(): string | undefined {
  looked ??= { missing: buildPlugin() }
  return looked.missing
}

function buildPlugin(): string | undefined {
  if (existsSync(pluginProgram) && statSync(pluginProgram).mtimeMs >= statSync(pluginSource).mtimeMs) return undefined
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' })
  return status === 0 ? undefined : stderr.trim().split('\n')[0]
}

export interface PluginRun {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
  readonly tookMs: number
}

/** One execution. The environment is exactly `env`. */
export function runPlugin(
  env: Readonly<Record<string, string>>,
  stdin: string | Uint8Array,
  program: string = pluginProgram,
  args: readonly string[] = [],
): Promise<PluginRun> {
  return new Promise((resolve, reject) => {
    const from = performance.now()
    const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout.on('data', (part: Buffer) => out.push(part))
    child.stderr.on('data', (part: Buffer) => err.push(part))
    // A program that has seen enough may end before it has read all of it.
    child.stdin.on('error', () => undefined)
    child.once('error', reject)
    child.once('close', (exitCode) => {
      const tookMs = performance.now() - from
      resolve({ exitCode, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString(), tookMs })
    })
    child.stdin.end(stdin)
  })
}
