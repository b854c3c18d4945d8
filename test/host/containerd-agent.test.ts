// SPDX-License-Identifier: Apache-2.0
// The whole agent as a program beside a real containerd: a pod that a client starts as kubelet does is in the mesh before its first process runs. Pods and
// namespaces come from a folder; ztunnel is a fake that enters what it is given.

import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { FakeNodeZtunnel } from '../support/fake-node-ztunnel.js'
import { hostParts } from '../support/host-parts.js'
import { testWith } from '../support/optional.js'
import { openContainerdRoom, whyNoContainerd, type ContainerdRoom, type SandboxPod } from './containerd-room.js'

const program = fileURLToPath(new URL('../../bin/addressd-node', import.meta.url))
const missing = whyNoContainerd() ?? hostParts.built ?? hostParts.nft
const withContainerd = testWith('containerd', missing)

let folder: string
let host: ContainerdRoom
let ztunnel: FakeNodeZtunnel
let agent: ChildProcess | undefined
let agentLog = ''

beforeAll(async () => {
  if (missing !== undefined) return
  folder = mkdtempSync(join(tmpdir(), 'adt-node-'))
  for (const name of ['objects', 'run', 'zds']) mkdirSync(join(folder, name))
  const labels = { 'istio.io/dataplane-mode': 'ambient' }
  write('namespaces', [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'apps', labels } },
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'plain' } },
  ])
  host = await openContainerdRoom({
    cni_agent_run_dir: join(folder, 'run'),
    pod_namespace: 'istio-system',
    exclude_namespaces: ['kube-system'],
  })
  // The probe set asks whose probes are exempt, and finds him by this name.
  copyFileSync('/bin/sleep', join(folder, 'kubelet'))
  host.startOnHost(join(folder, 'kubelet'), '100000')
  startAgent()
  ztunnel = new FakeNodeZtunnel({ zds: join(folder, 'zds', 'ztunnel.sock') })
  ztunnel.start()
}, 90_000)
afterAll(async () => {
  if (missing !== undefined) return
  ztunnel.stop()
  await stopAgent('SIGTERM')
  await host.close()
  rmSync(folder, { recursive: true, force: true })
}, 30_000)

function write(name: string, objects: readonly unknown[]): void {
  writeFileSync(
    join(folder, 'objects', `${name}.json`),
    JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
  )
}

/** A pod as the API server has it: before it starts, or, with its address, while it runs. */
function announce({ namespace, name, uid }: SandboxPod, ip?: string): void {
  const spec = { nodeName: 'node-1', serviceAccountName: 'web', containers: [{ name: 'app', image: 'app' }] }
  const status = ip === undefined ? { phase: 'Pending' } : { phase: 'Running', podIP: ip, podIPs: [{ ip }] }
  write(`${namespace}-${name}`, [{ apiVersion: 'v1', kind: 'Pod', metadata: { namespace, name, uid }, spec, status }])
}

function startAgent(): void {
  const flags = [
    '--node-name',
    'node-1',
    '--files',
    join(folder, 'objects'),
    '--cni-agent-run-dir',
    join(folder, 'run'),
  ]
  const socket = ['--ztunnel-uds-address', join(folder, 'zds', 'ztunnel.sock')]
  const env = ['env', 'ADDRESSD_HOST_ROOT=/', 'NATIVE_NFTABLES=true']
  agent = host.startOnHost(...env, process.execPath, program, 'run', ...flags, ...socket)
  for (const stream of [agent.stdout, agent.stderr]) stream?.on('data', (part: Buffer) => (agentLog += part.toString()))
}

async function stopAgent(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (agent === undefined || agent.exitCode !== null || agent.signalCode !== null) return
  const over = once(agent, 'exit')
  await host.signal(agent, signal)
  await over
}

/** As kubelet does: again, until it starts. */
async function runAgainAndAgain(pod: SandboxPod): Promise<string> {
  let last: unknown
  for (let tries = 0; tries < 8; tries++) {
    try {
      return await host.run(pod)
    } catch (error) {
      last = error
      await wait(500)
    }
  }
  throw new Error(`it does not start; the agent said:\n${agentLog.slice(-4_000)}`, { cause: last })
}

const web: SandboxPod = { namespace: 'apps', name: 'web', uid: '00000000-0000-4000-8000-0000000000a1' }

describe('a pod that starts beside the whole agent', () => {
  let sandbox: string

  withContainerd('is held by ztunnel, its rules made, when its sandbox is there', async () => {
    announce(web)
    sandbox = await runAgainAndAgain(web)
    const ip = await host.addressOf(sandbox)
    announce(web, ip)
    expect([...ztunnel.holds.keys()]).toEqual([web.uid])
    expect(ztunnel.runInside(web.uid, ['ip', '-4', '-o', 'address', 'show', 'dev', 'eth0'])).toContain(` ${ip}/24 `)
    const rules = ztunnel.runInside(web.uid, ['nft', 'list', 'ruleset'])
    for (const port of [':15001', ':15006', ':15053']) expect(rules).toContain(port)
    expect(ztunnel.runInside(web.uid, ['ip', 'rule'])).toContain('0x111')
  })

  withContainerd('of a namespace without the mesh gets no rule and is not held', async () => {
    const pod: SandboxPod = { namespace: 'plain', name: 'web', uid: '00000000-0000-4000-8000-0000000000a2' }
    announce(pod)
    await host.remove(await runAgainAndAgain(pod))
    expect([...ztunnel.holds.keys()]).toEqual([web.uid])
  })

  withContainerd('is told of again when the agent was killed and is back, with the same namespace', async () => {
    const before = ztunnel.holds.get(web.uid)
    await stopAgent('SIGKILL')
    const pod: SandboxPod = { namespace: 'apps', name: 'later', uid: '00000000-0000-4000-8000-0000000000a3' }
    announce(pod)
    await expect(host.run(pod)).rejects.toThrow('no answer from the node agent')
    startAgent()
    const later = await runAgainAndAgain(pod)
    expect(ztunnel.holds.get(pod.uid)).toBeDefined()
    // Found by its processes: no annotation says that it was there.
    await ztunnel.until(({ holds }) => holds.get(web.uid) === before)
    await host.remove(later)
  })

  withContainerd('does not start without a ztunnel, and says that this is why', async () => {
    ztunnel.stop()
    const pod: SandboxPod = { namespace: 'apps', name: 'alone', uid: '00000000-0000-4000-8000-0000000000a4' }
    announce(pod)
    let said = ''
    for (let tries = 0; tries < 8 && !said.includes('ztunnel'); tries++) {
      // The first tries may come before the agent has read of the pod.
      said = await host.run(pod).catch((error: unknown) => (error as Error).message)
    }
    expect(said).toMatch(/pod apps\/alone could not be taken into the mesh: .*ztunnel/)
    ztunnel.start()
    await host.remove(await runAgainAndAgain(pod))
  })

  withContainerd('leaves with its sandbox and its object', async () => {
    await host.remove(sandbox)
    rmSync(join(folder, 'objects', 'apps-web.json'))
    await ztunnel.until(({ holds }) => !holds.has(web.uid))
  })
})
