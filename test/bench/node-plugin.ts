// SPDX-License-Identifier: Apache-2.0
// Rows about the plugin's program: what one execution costs while the agent enrols the pod, as the kernel counts it for the process (wait4), by a small
// program of C.

import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { findPlugin, pluginProgram, runPlugin } from '../support/native-plugin.js'
import type { AgentRoom } from './node-agent.js'
import { namespace, type MachinePod } from './node-machine.js'
import { toText } from './node-rules.js'
import { selectMedian, selectQuantile } from './programs.js'
import type { Row } from './report.js'
import { root } from './subjects.js'

interface Execution {
  readonly exit: number
  readonly cpuUs: number
  readonly wallUs: number
  readonly rssKb: number
}

/** The program that counts, or why it cannot be had. */
function buildCounter(): { readonly program: string } | { readonly missing: string } {
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'addressd')
  mkdirSync(folder, { recursive: true })
  const program = join(folder, 'bench-exec-cost')
  const source = join(root, 'test/bench/load/exec-cost.c')
  for (const compiler of ['musl-gcc', 'gcc']) {
    const { status } = spawnSync(compiler, ['-Os', '-static', '-o', program, source])
    if (status === 0) return { program }
  }
  return { missing: 'no compiler for test/bench/load/exec-cost.c' }
}

interface Execute {
  readonly counter: string
  readonly command: 'ADD' | 'DEL'
  readonly folder: string
  /** Counts the memory, at the price of time. */
  readonly isWeighed?: boolean
}

async function execute(pod: MachinePod, { counter, command, folder, isWeighed = false }: Execute): Promise<Execution> {
  const config = {
    type: 'addressd-cni',
    name: 'net',
    cniVersion: '1.0.0',
    cni_agent_run_dir: join(folder, 'run'),
    exclude_namespaces: ['kube-system'],
    pod_namespace: 'istio-system',
    prevResult: {
      cniVersion: '1.0.0',
      interfaces: [{ name: 'eth0', sandbox: pod.netnsPath }],
      ips: [{ address: `${pod.ip}/32`, interface: 0 }],
    },
  }
  const id = `c-${pod.uid}`
  const args = {
    IgnoreUnknown: '1',
    K8S_POD_NAMESPACE: namespace,
    K8S_POD_NAME: pod.name,
    K8S_POD_INFRA_CONTAINER_ID: id,
    K8S_POD_UID: pod.uid,
  }
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: id,
    CNI_NETNS: pod.netnsPath,
    CNI_IFNAME: 'eth0',
    CNI_PATH: dirname(pluginProgram),
    CNI_ARGS: Object.entries(args)
      .map(([key, value]) => `${key}=${value}`)
      .join(';'),
  }
  const { stdout, stderr } = await runPlugin(env, JSON.stringify(config), counter, [
    ...(isWeighed ? ['-m'] : []),
    pluginProgram,
  ])
  const execution = JSON.parse(stderr) as Execution
  if (execution.exit !== 0) throw new Error(`the plugin's ${command} of ${pod.name} failed: ${stdout}`)
  return execution
}

/** `pods` are known to nobody yet. */
export async function measurePlugin(
  add: (row: Row) => void,
  room: AgentRoom,
  pods: readonly MachinePod[],
): Promise<void> {
  const counter = buildCounter()
  const missing = findPlugin() ?? ('missing' in counter ? counter.missing : undefined)
  if (missing !== undefined || 'missing' in counter) {
    add({ figure: 'plugin', unit: 'ms', addressd: Number.NaN, note: `skipped: ${missing ?? ''}` })
    return
  }
  await room.order({ starting: pods })
  const { folder } = room.machine
  const runs: Record<'ADD' | 'DEL', Execution[]> = { ADD: [], DEL: [] }
  const weighed: Execution[] = []
  for (const isWeighed of [false, true]) {
    for (const command of ['ADD', 'DEL'] as const) {
      for (const pod of pods) {
        const execution = await execute(pod, { counter: counter.program, command, folder, isWeighed })
        ;(isWeighed ? weighed : runs[command]).push(execution)
      }
    }
  }
  for (const command of ['ADD', 'DEL'] as const) {
    const of = (name: keyof Execution): number[] => runs[command].map((run) => run[name])
    add({
      figure: `plugin, ${command} of a pod, CPU`,
      unit: 'ms',
      addressd: selectMedian(of('cpuUs')) / 1000,
      target: 4.2,
      note: `p90 ${toText(selectQuantile(of('cpuUs'), 0.9))}; wall ${toText(selectMedian(of('wallUs')))}, which is the agent's`,
    })
  }
  const rssKb = Math.max(...weighed.map((run) => run.rssKb))
  add({
    figure: 'plugin, resident memory at its end',
    unit: 'MB',
    addressd: rssKb / 1024,
    target: 4,
    note: 'the largest of ADD and DEL',
  })
}
