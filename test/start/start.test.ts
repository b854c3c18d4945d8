// SPDX-License-Identifier: Apache-2.0
// `npm start` as a stranger uses it: what it prints can be pasted, edits show up, and it goes when it is told to.

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { testWith } from '../support/optional.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const patienceMs = 120_000

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

interface Started {
  readonly program: ChildProcess
  readonly grpc: string
  output(): string
  until(isSo: () => boolean, what: string): Promise<void>
}

async function start(...more: string[]): Promise<Started> {
  const [grpc, http, metrics] = [await findFreePort(), await findFreePort(), await findFreePort()]
  const ports = [
    `--grpcAddr=127.0.0.1:${grpc}`,
    '--httpAddr',
    `127.0.0.1:${http}`,
    `--monitoringAddr=127.0.0.1:${metrics}`,
  ]
  const program = spawn(process.execPath, [join(root, 'scripts/start.mjs'), ...ports, ...more], { cwd: tmpdir() })
  let text = ''
  program.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
  program.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()))
  const until = async (isSo: () => boolean, what: string): Promise<void> => {
    const end = performance.now() + patienceMs
    while (!isSo()) {
      if (performance.now() > end || program.exitCode !== null)
        throw new Error(`it never came to this: ${what}\n${text}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const started = { program, grpc: `127.0.0.1:${grpc}`, output: () => text, until }
  await until(() => /bin\/addressctl .*\n\n/s.test(text), 'it says what to ask')
  return started
}

async function stop(started: Started, signal: NodeJS.Signals): Promise<unknown> {
  const ended = once(started.program, 'exit')
  started.program.kill(signal)
  return ended
}

/** A printed line, pasted into a shell in the clone. */
function paste(line: string): { status: number | null; out: string } {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', line], { cwd: root, encoding: 'utf8', timeout: 30_000 })
  return { status, out: stdout + stderr }
}

const linesWith = (started: Started, start: string): string[] =>
  started
    .output()
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith(start))

describe('on the samples', () => {
  let started: Started
  beforeAll(async () => {
    started = await start()
  }, patienceMs)
  afterAll(async () => {
    if (started.program.exitCode === null) await stop(started, 'SIGKILL')
  })

  test('every question that it prints is answered when it is pasted: a pod, an address of a service, host names', () => {
    const lines = linesWith(started, 'bin/addressctl ')
    expect(lines).toEqual(
      ['10.20.1.11', '10.96.20.10', 'cart.shop.svc.cluster.local', 'vault.bank.example'].map(
        (what) => `bin/addressctl whatis ${what} --server ${started.grpc}`,
      ),
    )
    const subjects = [
      'storefront-6c9f7d5b8-4kxqz',
      'ledger.bank.svc.cluster.local',
      'cart.shop.svc.cluster.local',
      'vault-vm',
    ]
    for (const [i, line] of lines.entries()) {
      const { status, out } = paste(line)
      expect([line, status]).toEqual([line, 0])
      expect(out).toContain(subjects[i])
    }
  })

  const hasGrpcurl = spawnSync('grpcurl', ['-version']).error === undefined
  const grpcurlTest = testWith('grpcurl', hasGrpcurl ? undefined : 'there is no grpcurl to paste the line for')
  grpcurlTest('the question for grpcurl is answered too', () => {
    const [line, ...others] = linesWith(started, 'grpcurl ')
    expect(others).toEqual([])
    const { status, out } = paste(line ?? '')
    expect([out, status]).toEqual([expect.stringContaining('Kubernetes//Pod/shop/storefront-6c9f7d5b8-4kxqz'), 0])
  })

  test('it warns of nothing', () => {
    expect(
      started
        .output()
        .split('\n')
        .filter((line) => /"level":"(warn|error)"/.test(line)),
    ).toEqual([])
  })

  test('SIGTERM drains the program and ends with its exit code', async () => {
    expect(await stop(started, 'SIGTERM')).toEqual([0, null])
    expect(started.output()).toContain('"msg":"stopped"')
  })
})

test(
  'another folder is served by a flag; an edit there shows up, a broken file is reported and its last content stays',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'addressd-start-'))
    cpSync(join(root, 'samples'), folder, { recursive: true })
    const started = await start('--files', folder)
    try {
      const ask = (what: string) => paste(`bin/addressctl whatis ${what} --server ${started.grpc}`)
      const file = join(folder, 'shop/storefront.yaml')
      const text = readFileSync(file, 'utf8')
      writeFileSync(file, text.replace('10.20.1.11', '10.20.1.99'))
      await started.until(() => ask('10.20.1.99').status === 0, 'the new address is known')
      expect(ask('10.20.1.11').status).toBe(1)
      writeFileSync(file, `${text}\n---\nkind: [`)
      await started.until(() => started.output().includes('a manifest is wrong here'), 'the broken file is reported')
      expect(started.output()).toContain(file)
      expect(ask('10.20.1.99').status).toBe(0)
      expect(await stop(started, 'SIGINT')).toEqual([0, null])
    } finally {
      if (started.program.exitCode === null) await stop(started, 'SIGKILL')
      rmSync(folder, { recursive: true })
    }
  },
  2 * patienceMs,
)
