// SPDX-License-Identifier: Apache-2.0
// The life of the real process: starts that cannot be, ends that come early or twice, API servers that are not there. Needs dist/; skipped aloud without it.
import { afterEach, describe, expect } from '@jest/globals'
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { testWith } from '../support/optional.js'
import { XdsClient, ztunnelNode } from '../support/xds-client.js'
import { podManifest, until } from './room.js'

const program = fileURLToPath(new URL('../../bin/addressd', import.meta.url))
const isBuilt = existsSync(fileURLToPath(new URL('../../dist/main/addressd.js', import.meta.url)))
const maybe = testWith('built programs', isBuilt ? undefined : 'dist/ is not there; npm run build makes it')

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function folder(pods = 1): string {
  const path = mkdtempSync(join(tmpdir(), 'addressd-life-'))
  cleanups.push(() => rmSync(path, { recursive: true, force: true }))
  const all = Array.from({ length: pods }, (_v, i) =>
    podManifest(`p${i}`, `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`),
  )
  writeFileSync(join(path, 'pods.yaml'), all.join('---\n'))
  return path
}

interface Line {
  readonly level: string
  readonly msg: string
  readonly [field: string]: unknown
}

class Run {
  out = ''
  err = ''
  code: number | undefined
  readonly #child: ChildProcess

  constructor(args: readonly string[], env: Record<string, string> = {}) {
    const free = ['--grpcAddr=127.0.0.1:0', '--secureGRPCAddr=', '--httpAddr=127.0.0.1:0', '--monitoringAddr=']
    this.#child = spawn(process.execPath, [program, 'serve', ...free, ...args], {
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child.stdout?.on('data', (text: Buffer) => (this.out += text.toString()))
    this.#child.stderr?.on('data', (text: Buffer) => (this.err += text.toString()))
    this.#child.on('exit', (code, signal) => (this.code = code ?? (signal === null ? -1 : -2)))
    cleanups.push(() => this.#child.kill('SIGKILL'))
  }

  get lines(): Line[] {
    const whole = this.out.slice(0, this.out.lastIndexOf('\n') + 1)
    return whole
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Line)
  }

  line(msg: string): Line | undefined {
    return this.lines.find((line) => line.msg === msg)
  }

  async says(msg: string): Promise<Line> {
    await until(() => this.line(msg) !== undefined || this.code !== undefined, `"${msg}" in ${this.out} ${this.err}`)
    const found = this.line(msg)
    if (found === undefined) throw new Error(`it ended with ${this.code} and did not say "${msg}": ${this.err}`)
    return found
  }

  signal(name: 'SIGTERM' | 'SIGINT'): void {
    this.#child.kill(name)
  }

  /** Exit code, within the time that an end may take. */
  async ended(): Promise<number> {
    await until(() => this.code !== undefined, 'the end of the process', 20_000)
    return this.code ?? -1
  }
}

const portOf = (line: Line, listener: string): number => (line[listener] as { port: number }).port

describe('an end that is asked for', () => {
  maybe('during the start is exit code 0', async () => {
    const run = new Run(['--files', folder(5_000)])
    await until(() => run.code !== undefined || run.out !== '' || run.err !== '', 'a first word', 1_500).catch(
      () => undefined,
    )
    run.signal('SIGTERM')
    expect([[0, -2].includes(await run.ended()), run.err]).toEqual([true, ''])
  })

  maybe('while an API server is waited for is exit code 0', async () => {
    const run = new Run(['--kubeconfig', kubeconfig(1)])
    await run.says('the API server could not be read and is asked again')
    run.signal('SIGTERM')
    expect([await run.ended(), run.err, run.line('ready')]).toEqual([0, '', undefined])
    expect(run.lines.at(-1)?.msg).toBe('stopped')
  })

  maybe('during a snapshot ends the stream in good order, and the process with 0', async () => {
    const run = new Run(['--files', folder(5_000)])
    const port = portOf(await run.says('ready'), 'grpc')
    const client = new XdsClient({ port, node: ztunnelNode(), windowBytes: 65_535 })
    client.send({ type: 'Address', subscribe: ['*'] })
    await until(() => run.line('client connected') !== undefined, 'the client')
    run.signal('SIGTERM')
    expect(await client.untilEnded(20_000)).toEqual({ code: 0, message: '' })
    expect(client.responses.map(({ resources }) => resources.length)).toEqual([5_000])
    expect([await run.ended(), run.err]).toEqual([0, ''])
  })

  maybe('twice cuts what does not go by itself', async () => {
    const run = new Run(['--files', folder(5_000), '--shutdownDuration=1h'])
    const port = portOf(await run.says('ready'), 'grpc')
    const client = new XdsClient({ port, node: ztunnelNode(), freezable: true })
    client.send({ type: 'Address', subscribe: ['*'] })
    await until(() => run.line('client connected') !== undefined, 'the client')
    client.freeze()
    run.signal('SIGTERM')
    await run.says('stopping')
    run.signal('SIGTERM')
    expect(await run.ended()).toBe(0)
    client.destroy()
  })
})

/** A kubeconfig for an API server on this port of this machine. */
function kubeconfig(port: number, more: Record<string, unknown> = {}): string {
  const path = mkdtempSync(join(tmpdir(), 'addressd-kubeconfig-'))
  cleanups.push(() => rmSync(path, { recursive: true, force: true }))
  const file = join(path, 'config')
  writeFileSync(
    file,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      users: [{ name: 'u', user: {} }],
      'current-context': 'x',
      ...more,
    }),
  )
  return file
}

describe('a start that cannot be ends at once, with a sentence that says what to do', () => {
  const listeners: Server[] = []
  const occupied = async (): Promise<number> => {
    const server = createServer()
    listeners.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => new Promise((resolve) => server.close(resolve)))
    return (server.address() as { port: number }).port
  }

  maybe.each(['grpcAddr', 'httpAddr', 'monitoringAddr'])('--%s in use', async (flag) => {
    const port = await occupied()
    const run = new Run(['--files', folder(), `--${flag}=127.0.0.1:${port}`])
    expect(await run.ended()).toBe(1)
    expect(run.err).toBe(
      `addressd: --${flag}=127.0.0.1:${port}: this address is in use by another process; stop it or choose another one\n`,
    )
  })

  maybe('two sources', async () => {
    const run = new Run(['--files', folder(), '--kubeconfig', kubeconfig(1)])
    expect([await run.ended(), run.out]).toEqual([2, ''])
    expect(run.err).toMatch(/--files.*--kubeconfig|--kubeconfig.*--files/)
  })

  maybe('no source', async () => {
    const run = new Run([])
    expect(await run.ended()).toBeGreaterThan(0)
    expect(run.err).toMatch(/^addressd: .*(--kubeconfig|--files)/s)
  })

  maybe.each([
    ['a file that is not there', '/does/not/exist'],
    ['a file of something else', program],
    ['a folder', tmpdir()],
  ])('%s for a kubeconfig', async (_, file) => {
    const run = new Run(['--kubeconfig', file])
    expect(await run.ended()).toBe(1)
    expect(run.err).toContain(`in the kubeconfig file ${file} cannot be used: `)
    expect(run.err.trim().split('\n')).toHaveLength(1)
  })

  maybe('a kubeconfig whose context is not there', async () => {
    const run = new Run(['--kubeconfig', kubeconfig(1, { 'current-context': 'elsewhere' })])
    expect(await run.ended()).toBe(1)
    expect(run.err).toContain('elsewhere')
  })

  maybe('nonsense in the environment, all of it at once', async () => {
    const run = new Run(['--files', folder()], {
      PILOT_DEBOUNCE_AFTER: 'soon',
      PILOT_ENABLE_AMBIENT: 'maybe',
      ISTIO_GPRC_MAXSTREAMS: '-1',
      PILOT_XDS_SEND_TIMEOUT: '0s',
      ADDRESSD_MAX_NAMES: '1e6',
      ADDRESSD_NONSENSE: 'x',
      SOMEBODY_ELSES: 'y',
    })
    expect([await run.ended(), run.out]).toEqual([2, ''])
    for (const name of [
      'PILOT_DEBOUNCE_AFTER',
      'PILOT_ENABLE_AMBIENT',
      'ISTIO_GPRC_MAXSTREAMS',
      'PILOT_XDS_SEND_TIMEOUT',
    ]) {
      expect(run.err).toContain(`  ${name}: `)
    }
    expect(run.err).toContain('  ADDRESSD_MAX_NAMES: ')
    expect(run.err).toContain('  ADDRESSD_NONSENSE is not')
    expect(run.err).not.toContain('SOMEBODY_ELSES')
  })
})

describe('an API server that is not there', () => {
  maybe('is asked again, /ready says what is missing, and the log says why', async () => {
    const run = new Run(['--kubeconfig', kubeconfig(1), '--log_output_level=default:debug'])
    const line = await run.says('the API server could not be read and is asked again')
    expect(line.level).toBe('warn')
    expect(JSON.stringify(line)).toContain('ECONNREFUSED')
    expect(run.line('ready')).toBeUndefined()
    await until(() => run.lines.filter(({ kind }) => kind === line['kind']).length > 1, 'a second try')
    expect(run.code).toBeUndefined()
  })

  maybe('and durations beyond all timers mean never, not at once', async () => {
    const run = new Run(
      [
        '--files',
        folder(),
        '--keepaliveInterval=2000h',
        '--keepaliveTimeout=2000h',
        '--keepaliveMaxServerConnectionAge=2562047h47m16.854775807s',
        '--shutdownDuration=2000h',
      ],
      { PILOT_XDS_SEND_TIMEOUT: '2000h' },
    )
    const port = portOf(await run.says('ready'), 'grpc')
    const client = new XdsClient({ port, node: ztunnelNode() })
    client.send({ type: 'Address', subscribe: ['*'] })
    await client.receivedAtLeast(1)
    for (let i = 0; i < 20; i++) await client.ping()
    expect([client.ended, client.goaway]).toEqual([undefined, undefined])
    run.signal('SIGTERM')
    expect([await client.untilEnded(), await run.ended(), run.err]).toEqual([{ code: 0, message: '' }, 0, ''])
  })
})

maybe('a folder that appears where a file was, and a file where a folder was, are taken as they are', async () => {
  const path = folder()
  const run = new Run(['--files', path])
  await run.says('ready')
  rmSync(join(path, 'pods.yaml'))
  mkdirSync(join(path, 'pods.yaml'))
  writeFileSync(join(path, 'pods.yaml', 'inside.yaml'), podManifest('inside', '10.1.1.1'))
  await until(() => run.lines.some((line) => line['objects'] === 2), 'both changes')
  run.signal('SIGINT')
  expect(await run.ended()).toBe(0)
})
