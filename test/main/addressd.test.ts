// SPDX-License-Identifier: Apache-2.0
// The command line of addressd inside this process, with signals and output of our own.
import { afterEach, expect, test } from '@jest/globals'
import { EventEmitter } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runAddressd } from '../../src/main/addressd.js'

const folder = mkdtempSync(join(tmpdir(), 'addressd-cli-'))
const log = join(folder, 'log')
afterEach(() => rmSync(log, { force: true }))

/** Resolves once somebody listens for SIGTERM. */
function heard(signals: EventEmitter): Promise<void> {
  return new Promise((resolve) => {
    signals.on('newListener', (name) => {
      if (name === 'SIGTERM') setImmediate(resolve)
    })
  })
}

const off = ['--grpcAddr=', '--secureGRPCAddr=', '--httpAddr=', '--monitoringAddr=', `--log_target=${log}`]

function run(argv: string[], signals = new EventEmitter()) {
  const output = { stdout: '', stderr: '' }
  const code = runAddressd(argv, {
    stdout: (text) => void (output.stdout += text),
    stderr: (text) => void (output.stderr += text),
    env: {},
    signals,
  })
  return { code, output }
}

const messages = (): string[] =>
  readFileSync(log, 'utf8')
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { msg: string }).msg)

test('a signal ends it with code 0 and leaves no handler behind', async () => {
  const signals = new EventEmitter()
  const listening = heard(signals)
  const { code, output } = run(['serve', '--files', folder, ...off], signals)
  await listening
  signals.emit('SIGTERM', 'SIGTERM')
  expect([await code, output]).toEqual([0, { stdout: '', stderr: '' }])
  expect([signals.listenerCount('SIGTERM'), signals.listenerCount('SIGINT')]).toEqual([0, 0])
  expect(messages()).toContain('stopping')
  expect(messages().at(-1)).toBe('stopped')
})

test('an address in use ends it with code 1 and says which', async () => {
  const blocker = createServer()
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve))
  const { port } = blocker.address() as { port: number }
  const { code, output } = run(['discovery', '--files', folder, ...off, `--httpAddr=127.0.0.1:${port}`])
  expect(await code).toBe(1)
  expect(output.stderr).toBe(
    `addressd: --httpAddr=127.0.0.1:${port}: this address is in use by another process; stop it or choose another one\n`,
  )
  await new Promise((resolve) => blocker.close(resolve))
})

test('a folder that is not there ends it with code 1', async () => {
  const { code, output } = run(['serve', '--files', '/does/not/exist', ...off])
  expect(await code).toBe(1)
  expect(output.stderr).toContain('/does/not/exist')
})

test('a file in the place of a folder is called so, and ends it with code 1', async () => {
  const file = fileURLToPath(import.meta.url)
  const { code, output } = run(['serve', '--files', file, ...off])
  expect(await code).toBe(1)
  expect(output.stderr).toBe(`addressd: cannot read the folder of manifests ${file}: ${file} is no folder\n`)
})

test('flags that change nothing are warnings in the log', async () => {
  const signals = new EventEmitter()
  const listening = heard(signals)
  const { code } = run(['serve', '--files', folder, ...off, '--registries', 'Kubernetes', '--profile'], signals)
  await listening
  signals.emit('SIGINT', 'SIGINT')
  expect(await code).toBe(0)
  expect(messages().filter((message) => message === 'setting has no effect')).toHaveLength(2)
})

test('a log target that cannot be opened is said before anything starts', async () => {
  const { code, output } = run(['serve', '--files', folder, ...off, '--log_target=/does/not/exist/log'])
  expect(await code).toBe(2)
  expect(output.stderr).toMatch(/^addressd: --log_target: .*ENOENT/)
})
