// SPDX-License-Identifier: Apache-2.0
// Bad input at every edge of the whole agent, on a machine with real namespaces: a clear error each, the pod that is enrolled and its ztunnel are not
// disturbed, and nothing is left behind. Needs root, dist/ and the plugin; skipped aloud without them.

import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect } from '@jest/globals'
import { formatPluginCall } from '../../src/node-agent/plugin-protocol/framing.js'
import type { LogRecord } from '../reports/log-book.js'
import { NodeRoom } from '../reports/node/room.js'
import { until } from '../story/room.js'
import { askSocket } from '../support/cni-room.js'
import { hostParts } from '../support/host-parts.js'
import { findPlugin, runPlugin, type PluginRun } from '../support/native-plugin.js'
import { testWith } from '../support/optional.js'

const missing = hostParts.built ?? hostParts.netns ?? hostParts.nft ?? findPlugin()
const maybe = testWith('root', missing)
const fakeZtunnel = fileURLToPath(new URL('../support/run-fake-ztunnel.mjs', import.meta.url))
const toNobody = ['--reuid', '65534', '--regid', '65534', '--clear-groups', '--', process.execPath, fakeZtunnel]

/** Why nobody cannot play a ztunnel here. */
function whyNotNobody(): string | undefined {
  const { status, error, stderr } = spawnSync('setpriv', [...toNobody, '--help'], { encoding: 'utf8' })
  return status === 0 ? undefined : `nobody cannot run programs here: ${error?.message ?? stderr.split('\n')[0]}`
}
const withNobody = testWith('setpriv', missing ?? whyNotNobody())

const namespace = (name: string, labels: object) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
})
const uidOf = (name: string): string => `5d1f6a3e-9a41-4d0c-8f0e-${Buffer.from(name).toString('hex').padEnd(12, '0')}`
const pod = (name: string, ip?: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'shop', uid: uidOf(name) },
  spec: { nodeName: 'node-1', serviceAccountName: 'web', containers: [] },
  status: ip === undefined ? { phase: 'Pending' } : { phase: 'Running', podIP: ip, podIPs: [{ ip }] },
})

let room: NodeRoom
const path = (name: string): string => room.host.netns(name)?.path ?? ''
const socket = (): string => room.host.at('run/cni/pluginevent.sock')

interface Call {
  readonly netns: string
  readonly stdin?: string | Uint8Array
  readonly pod?: string
}

const toEnv = ({ netns, pod: name = 'new' }: Call): Record<string, string> => ({
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: `sandbox-of-${name}`,
  CNI_NETNS: netns,
  CNI_IFNAME: 'eth0',
  CNI_PATH: '/opt/cni/bin',
  CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name};K8S_POD_UID=${uidOf(name)}`,
})

const config = (fields: object = {}): string =>
  JSON.stringify({
    cniVersion: '1.0.0',
    name: 'net',
    type: 'addressd-cni',
    cni_agent_run_dir: room.host.at('run/cni'),
    prevResult: { cniVersion: '1.0.0', ips: [{ address: '10.70.0.2/32' }] },
    ...fields,
  })

/** The runtime starts a sandbox of the pod `new`. */
const add = (call: Call): Promise<PluginRun> => runPlugin(toEnv(call), call.stdin ?? config())

/** What a person sees of a failed start. */
function errorOf({ exitCode, stdout, stderr }: PluginRun): { code: number; text: string } {
  expect([exitCode, stderr]).toEqual([1, ''])
  const { code, msg, details = '' } = JSON.parse(stdout) as { code: number; msg: string; details?: string }
  return { code, text: `${msg} ${details}`.trim() }
}

/** Everything that bad input could disturb or leave. */
async function look(): Promise<object> {
  const { node, host } = room
  const plane = await room.plane()
  return {
    pods: node?.parts?.agent.describe(),
    ready: node?.ready(),
    served: Object.fromEntries(room.newest?.holds ?? []),
    connections: [...room.ztunnels.values()].map(({ fake }) => fake.connections),
    probes: Object.fromEntries(await plane.probeSet.list()),
    rules: Object.fromEntries(host.names().map((name) => [name, host.netns(name)?.run(['nft', 'list', 'ruleset'])])),
    namespaces: room.openNamespaces(),
    objects: ['good', 'new'].map((name) => room.api.get('Pod', 'shop', name)?.metadata),
  }
}

const warnings = (): LogRecord[] => room.log.records.filter(({ level }) => level === 'warn' || level === 'error')
const countDescriptors = (): number => readdirSync('/proc/self/fd').length
let descriptors = 0
let before: object
let told = 0

/** What was logged since, after it was made sure that all else is as it was. */
async function expectUndisturbed(): Promise<readonly string[]> {
  await room.quiet()
  expect(await look()).toEqual(before)
  // Connections that are kept for the next question end sooner or later, so there may be fewer.
  await until(() => countDescriptors() <= descriptors, 'descriptors to be closed')
  return warnings()
    .slice(told)
    .map(({ message }) => message)
}

beforeEach(async () => {
  if (missing !== undefined) return
  const nothing = { addresses: [], rules: [] }
  room = await NodeRoom.open({
    ...{ id: 'bad-input', part: 'node', about: '', given: [], steps: [] },
    host: { node: 'node-1', netns: { good: { addresses: ['10.70.0.1'], rules: [] }, new: nothing } },
  } as never)
  room.api.upsert(namespace('istio-system', {}), namespace('shop', { 'istio.io/dataplane-mode': 'ambient' }))
  room.api.upsert(pod('good', '10.70.0.1'), pod('new'))
  await room.changeHost({ proc: [{ pid: 100, netns: 'good', podUid: uidOf('good'), started: 1 }] })
  await room.startAgent()
  room.connectZtunnel('z1', {})
  await until(() => room.node?.parts?.agent.describe()[0]?.enrolled === true, `the good pod to be enrolled`).catch(
    (error: unknown) => {
      throw new Error(JSON.stringify(room.log.records.map(({ message, fields }) => [message, fields])), {
        cause: error,
      })
    },
  )
  // What is made when it is first needed is there before anything is compared.
  expect(errorOf(await add({ netns: '/nowhere/at-all' })).code).toBe(999)
  await look()
  await room.quiet()
  before = await look()
  descriptors = countDescriptors()
  told = warnings().length
})
afterEach(async () => {
  if (missing === undefined) await room.close()
})

describe('a sandbox is refused', () => {
  maybe('whose namespace is a regular file, a folder, a device or another kind of namespace', async () => {
    const file = room.host.at('run/file')
    writeFileSync(file, '')
    for (const netns of [file, room.host.root, '/dev/null', '/proc/self/ns/uts']) {
      expect([netns, errorOf(await add({ netns }))]).toEqual([
        netns,
        { code: 999, text: expect.stringContaining(`${netns} is no network namespace`) as unknown as string },
      ])
    }
    expect((await expectUndisturbed()).every((message) => message === 'sandbox may not start')).toBe(true)
  })

  maybe("whose namespace is the host's, by whichever path, and the host gets no rules of a pod", async () => {
    for (const netns of [path('host'), room.host.at('proc/1/ns/net')]) {
      expect(errorOf(await add({ netns })).text).toContain(`${netns} is the node's own network namespace`)
    }
    await expectUndisturbed()
  })

  maybe('whose namespace is not there, by a path that leads nowhere or in circles', async () => {
    mkdirSync(room.host.at('run/loop'))
    spawnSync('ln', ['-s', 'b', room.host.at('run/loop/a')])
    spawnSync('ln', ['-s', 'a', room.host.at('run/loop/b')])
    for (const netns of [room.host.at('run/none'), room.host.at('run/loop/a')]) {
      expect(errorOf(await add({ netns })).text).toContain(netns)
    }
    await expectUndisturbed()
  })

  maybe('whose pod is deleted while ztunnel thinks about it, at once, and nothing of the pod stays', async () => {
    room.ztunnels.get('z1')?.fake.answer(uidOf('new'), { after: 1_500 })
    const adding = add({ netns: path('new') })
    const isAsked = (): boolean => room.newest?.records.some(({ uid }) => uid === uidOf('new')) ?? false
    await until(isAsked, 'ztunnel to be asked')
    room.api.remove({ kind: 'Pod', namespace: 'shop', name: 'new' })
    expect(errorOf(await adding)).toMatchObject({ code: 999, text: expect.stringContaining('shop/new') as unknown })
    // The runtime takes the sandbox of a failed start down, and its rules go with it.
    await room.changeHost({ netns: { new: null } })
    const uids = (): string[] => room.node?.parts?.agent.describe().map(({ uid }) => uid) ?? []
    await until(() => uids().length === 1, 'the pod to be let go of')
    await room.advance(6_000)
    expect([uids(), [...(room.newest?.holds.keys() ?? [])]]).toEqual([[uidOf('good')], [uidOf('good')]])
    expect(await (await room.plane()).probeSet.list()).toEqual(new Map([['10.70.0.1', uidOf('good')]]))
    expect(room.openNamespaces()).toBe((before as { namespaces: number }).namespaces)
  })

  maybe('whose configuration is no JSON, or not of the form that CNI wants', async () => {
    const bad: readonly (string | Uint8Array)[] = [
      '',
      'null',
      '[]',
      '{',
      `${config().slice(0, -1)},}`,
      `{"a":${'['.repeat(200_000)}`,
      Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
      config({ cniVersion: 7 }),
      config({ cniVersion: '9.9.9' }),
      config({ name: '' }),
      config({ prevResult: 'none' }),
      config({ prevResult: { cniVersion: '1.0.0', ips: [{ address: '10.70.0.300/32' }] } }),
      config({ prevResult: { cniVersion: '1.0.0', ips: 'all' } }),
      config({ exclude_namespaces: { a: 1 } }),
    ]
    for (const stdin of bad) {
      const { code, text } = errorOf(await add({ netns: path('new'), stdin }))
      expect([String(stdin).slice(0, 80), code > 0 && text.length > 10]).toEqual([String(stdin).slice(0, 80), true])
    }
    await expectUndisturbed()
  })

  maybe('whose configuration has five megabytes, by the plugin and by the agent itself', async () => {
    const big = config({ filler: 'x'.repeat(5 << 20) })
    const { code, text } = errorOf(await add({ netns: path('new'), stdin: big }))
    expect([code, text.length > 10, text.length < 500]).toEqual([6, true, true])
    const body = formatPluginCall({
      env: new Map(Object.entries(toEnv({ netns: path('new') }))),
      stdin: Buffer.from(big),
    })
    const reply = await askSocket(socket(), { path: '/cni', body })
    expect([reply.status, reply.body.length > 10, reply.body.length < 500]).toEqual([413, true, true])
    await expectUndisturbed()
  })
})

describe('the event socket', () => {
  maybe('survives bytes that are no HTTP, calls that never end, and events that are no JSON', async () => {
    const raw = (bytes: string | Uint8Array): Promise<void> =>
      new Promise((resolve) => {
        const client = connect({ path: socket() }, () => client.end(bytes))
        client.on('error', () => resolve())
        client.on('close', () => resolve())
        client.resume()
      })
    await raw(Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 37) & 255)))
    await raw('GET / HTTP/9.9\r\n\r\n')
    await raw('POST /cni HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf')
    const unfinished = connect({ path: socket() })
    unfinished.on('error', () => undefined)
    unfinished.write('POST /cni HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n')
    for (const body of ['', '{', '[]', '{"Netns":7}', 'x'.repeat(100)]) {
      const { status } = await askSocket(socket(), { path: '/cmdadd', contentType: 'application/json', body })
      expect([body, status >= 400 && status < 600]).toEqual([body, true])
    }
    // Somebody else is served meanwhile.
    expect(errorOf(await add({ netns: '/nowhere/at-all' })).code).toBe(999)
    unfinished.destroy()
    await expectUndisturbed()
  })
})

describe('the socket of ztunnel', () => {
  withNobody('is closed to another user, who learns of no pod', async () => {
    const zds = room.settings.ztunnelSocket
    for (const open of [room.host.root, room.host.at('run'), room.host.at('run/ztunnel'), zds]) chmodSync(open, 0o777)
    const child = spawn('setpriv', [...toNobody, '--zds', zds, '--no-reconnect'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    try {
      let said = ''
      child.stdout.on('data', (chunk) => (said += String(chunk)))
      const message = 'refused a connection of another user'
      await until(() => warnings().some((line) => line.message === message), 'the refusal')
      child.stdin.write('state\n')
      await until(() => said.includes('\n'), 'its state')
      expect(said).not.toContain(uidOf('good'))
      const refusal = warnings().find((line) => line.message === message)
      expect(refusal?.fields).toMatchObject({ uid: 65_534, allowedUid: 0 })
    } finally {
      child.kill('SIGKILL')
    }
    expect(await expectUndisturbed()).toEqual(['refused a connection of another user'])
  })

  maybe('ends a connection that speaks garbage, and the other ztunnel goes on alone', async () => {
    room.connectZtunnel('z2', {})
    await until(() => room.ztunnels.get('z2')?.fake.isReady === true, 'the second ztunnel')
    const second = room.ztunnels.get('z2')?.fake
    await second?.say(Buffer.from('ffffffffffffffff', 'hex'))
    await until(() => second?.isConnected === false, 'its end')
    second?.stop()
    room.ztunnels.delete('z2')
    const messages = await expectUndisturbed()
    expect(messages).toHaveLength(1)
    const done = await add({ netns: path('new') })
    expect([done.exitCode, room.newest?.holds.has(uidOf('new'))]).toEqual([0, true])
  })

  maybe.each(['garbage', 'long', 'twice', 'close'] as const)(
    'an answer that is wrong (%s) to one pod costs that ztunnel its connection, and the pod its start, until it comes back',
    async (answer) => {
      const fake = room.ztunnels.get('z1')?.fake
      fake?.answer(uidOf('new'), answer)
      const first = await add({ netns: path('new') })
      await until(() => fake?.isConnected === false, 'the end of the connection')
      // Said yes first, and no sooner than that was it too much.
      if (answer === 'twice') expect([0, 1]).toContain(first.exitCode)
      else expect(errorOf(first)).toMatchObject({ code: 999, text: expect.stringContaining('shop/new') as unknown })
      room.connectZtunnel('z2', {})
      await until(() => room.newest?.isReady === true, 'another ztunnel')
      expect((await add({ netns: path('new') })).exitCode).toBe(0)
      expect([...(room.newest?.holds.keys() ?? [])].sort()).toEqual([uidOf('good'), uidOf('new')].sort())
    },
  )
})

maybe('folders that the agent looks through may hold anything', async () => {
  const proc = (name: string): string => room.host.at(join('proc', name))
  for (const name of ['200', '201', '202', '99999999999999999999']) mkdirSync(proc(name))
  writeFileSync(proc('200/cgroup'), Buffer.from([0xff, 0x00, 0x0a, 0xfe]))
  writeFileSync(proc('201/cgroup'), `0::/kubepods/pod${uidOf('lost')}/${'x'.repeat(100_000)}\n`)
  writeFileSync(proc('201/stat'), ') (')
  mkdirSync(proc('202/cgroup'))
  writeFileSync(proc('203'), 'a file where a process should be')
  room.api.upsert(pod('lost', '10.70.0.9'))
  await room.settle()
  const messages = warnings().slice(told)
  expect(messages.some(({ fields }) => String(fields['pod']) === 'shop/lost')).toBe(true)
  expect(room.node?.parts?.agent.describe().filter(({ enrolled }) => enrolled)).toHaveLength(1)
  expect((await add({ netns: path('new') })).exitCode).toBe(0)
})
