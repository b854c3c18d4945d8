// SPDX-License-Identifier: Apache-2.0
// Recorded executions of the reference's plugin, against ours and our agent's server as a pair: same exit code, same result, same enrolments. The real
// program asks the real server; only who is of the mesh, and how enrolment ends, is the case's.

import { describe, expect, test } from '@jest/globals'
import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Retryable } from '../../../src/base/errors.js'
import type { PodVerdict } from '../../../src/node-agent/cni-decisions.js'
import { formatOutside, parseEnablementSelectors, toVerdict } from '../../../src/node-agent/eligibility.js'
import type { EnablementSelector } from '../../../src/node-agent/eligibility.js'
import { openCniRoom, toIdentity, type CniRoom } from '../../support/cni-room.js'
import { findPlugin, runPlugin, type PluginRun } from '../../support/native-plugin.js'
import { testWith } from '../../support/optional.js'
import { casesFolder, listCases } from '../folder.js'

interface AddRequest {
  readonly body: {
    readonly Netns: string
    readonly PodName: string
    readonly PodNamespace: string
    readonly IPs: readonly { readonly Address: { readonly IP: string } }[] | null
  }
}

interface Case {
  readonly about: string
  readonly input: {
    readonly env: Readonly<Record<string, string>>
    readonly stdin: Readonly<Record<string, any>> | string
    readonly kubeconfig: boolean
    readonly kube: {
      readonly namespaceLabels: Readonly<Record<string, string>> | null
      readonly pod: Readonly<Record<string, any>> | null
      readonly failAllWith: number | null
    }
    readonly agent: 'absent' | { readonly status: number; readonly body?: string; readonly delayMs?: number }
  }
  readonly output: {
    readonly exitCode: number
    readonly stdout: Readonly<Record<string, unknown>> | null
    readonly agentRequests: readonly AddRequest[]
  }
  readonly deviation?: { readonly expect: Readonly<Record<string, unknown>> }
}

/** What is compared. */
interface Outcome {
  readonly exitCode: number | null
  /** Printed: nothing, an error with its code, or a result. */
  readonly stdout: unknown
  readonly enrolments: readonly unknown[]
}

const folder = findFolder('plugin')
const missing = findPlugin()
const withPlugin = testWith('gcc', missing)

describe('recorded executions of the plugin', () => {
  if (folder === undefined) {
    console.warn('no node/plugin/ among the recorded cases: nothing to compare')
    test.skip('node/plugin/ is missing', () => undefined)
  }
  for (const path of folder === undefined ? [] : listCases(folder)) {
    const recorded = JSON.parse(readFileSync(path, 'utf8')) as Case
    const name = `${basename(path, '.json')}: ${recorded.about}`
    const reason = whyNotOurs(recorded)
    if (reason === undefined) withPlugin(name, () => play(recorded))
    else {
      console.warn(`SKIPPED: ${name}: ${reason}`)
      test.skip(`${name} (${reason})`, () => undefined)
    }
  }
})

/** Our plugin has no credentials: what a missing kubeconfig does to the other does not apply. */
function whyNotOurs({ input, output }: Case): string | undefined {
  const onlyKubeconfig = !input.kubeconfig && input.agent !== 'absent' && output.exitCode !== 0
  return onlyKubeconfig && output.stdout?.['code'] === 999 ? 'our plugin has no kubeconfig to miss' : undefined
}

async function play(recorded: Case): Promise<void> {
  const { input } = recorded
  const settings = typeof input.stdin === 'string' ? {} : input.stdin
  const selectors = compile(settings)
  // An agent whose selectors are broken says so at its start and does not run.
  const room = await openCniRoom({
    excludeNamespaces: (settings['exclude_namespaces'] ?? []) as string[],
    podNamespace: String(settings['pod_namespace'] ?? ''),
    listening: input.agent !== 'absent' && selectors !== undefined,
  })
  try {
    prepare(room, recorded, selectors ?? [])
    const text = (typeof input.stdin === 'string' ? input.stdin : JSON.stringify(input.stdin)).replaceAll(
      '$RUN',
      room.folder,
    )
    const run = await runPlugin(input.env, text)
    const seen = toOutcome(run, room, text)
    expect(toAcceptable(recorded, selectors === undefined)).toContainEqual(seen)
    expect(run.tookMs).toBeLessThan(5_500)
  } finally {
    await room.close()
  }
}

/** Undefined when one does not compile. */
function compile(settings: Readonly<Record<string, unknown>>): readonly EnablementSelector[] | undefined {
  try {
    return parseEnablementSelectors(JSON.stringify(settings['enablement_selectors'] ?? []))
  } catch {
    return undefined
  }
}

function prepare(room: CniRoom, { input }: Case, selectors: readonly EnablementSelector[]): void {
  const { kube, agent } = input
  const isOn = typeof input.stdin !== 'string' && input.stdin['ambient_enabled'] === true
  room.decisions.verdict = (asked): PodVerdict => {
    const pod = kube.failAllWith === null && kube.namespaceLabels !== null ? kube.pod : null
    if (pod === null) return { kind: 'unknown', reason: 'the agent has not heard of it' }
    const view = {
      labels: pod['metadata'].labels,
      annotations: pod['metadata'].annotations,
      hostNetwork: pod['spec'].hostNetwork === true,
    }
    const namespace = {
      name: asked.namespace,
      labels: kube.namespaceLabels ?? undefined,
      excluded: false,
      discovered: true,
    }
    const verdict = toVerdict(view, namespace, isOn ? selectors : [])
    return verdict.eligible
      ? { kind: 'eligible', pod: toIdentity(asked) }
      : { kind: 'ineligible', reason: formatOutside(verdict.why) }
  }
  room.decisions.onEnroll = async (_pod, { signal }) => {
    if (agent === 'absent') throw new Error('nobody is there')
    // The recorded answer took this long in real time, and so must ours: the plugin's own clock runs meanwhile.
    await wait(agent.delayMs ?? 0, undefined, { signal })
    if (agent.status !== 200) throw new Retryable(agent.body?.trim() ?? `status ${agent.status}`)
  }
}

function toOutcome(run: PluginRun, room: CniRoom, stdin: string): Outcome {
  const enrolments = room.decisions.enrolments.map(({ pod, netnsPath, ips }) => ({ pod, netns: netnsPath, ips }))
  const printed: unknown = run.stdout === '' ? null : JSON.parse(run.stdout)
  if (run.exitCode !== 0) return { exitCode: run.exitCode, stdout: toError(printed), enrolments }
  // Byte for byte: the previous result stands in stdin exactly as it was printed.
  const isPrevious = run.stdout !== '' && stdin.includes(`"prevResult":${run.stdout}`)
  return { exitCode: 0, stdout: isPrevious ? 'the previous result' : printed, enrolments }
}

function toError(printed: unknown): unknown {
  const { code, msg } = (printed ?? {}) as { code?: unknown; msg?: unknown }
  return { code, hasText: typeof msg === 'string' && msg !== '' }
}

function toAcceptable({ input, output, deviation }: Case, neverStarts: boolean): readonly Outcome[] {
  const expected = { ...output, ...deviation?.expect }
  const enrolments = expected.agentRequests.map(({ body }) => ({
    pod: `${body.PodNamespace}/${body.PodName}`,
    netns: body.Netns,
    ips: (body.IPs ?? []).map(({ Address }) => Address.IP),
  }))
  const hasPrevious = typeof input.stdin !== 'string' && (input.stdin['prevResult'] ?? null) !== null
  const result = hasPrevious && expected.stdout !== null ? 'the previous result' : expected.stdout
  const stdout = expected.exitCode === 0 ? result : toError(expected.stdout)
  const outcomes: Outcome[] = [{ exitCode: expected.exitCode, stdout, enrolments }]
  const failed: Outcome = { exitCode: 1, stdout: toError({ code: 999, msg: 'text' }), enrolments: [] }
  // Named in docs/COMPARISON.md: without an agent (whose selectors do not compile, too) nobody can say that a pod is not of the mesh, and it waits.
  if (neverStarts || (input.agent === 'absent' && input.env['CNI_COMMAND'] === 'ADD' && !isExempt(input))) {
    outcomes.push(failed)
  }
  const may = Object.keys(deviation?.expect ?? {})
  if (may.includes('mayFail') || may.includes('mayRefuse')) outcomes.push(failed)
  if (may.includes('mayPassOver')) outcomes.push({ exitCode: 0, stdout: result, enrolments: [] })
  return outcomes
}

/** What passes whoever listens: the agent's own pods, excluded namespaces, and what is no pod of Kubernetes. */
function isExempt({ env, stdin }: Case['input']): boolean {
  const argument = (key: string): string => new RegExp(`(?:^|;)${key}=([^;]*)`).exec(env['CNI_ARGS'] ?? '')?.[1] ?? ''
  const [namespace, name] = [argument('K8S_POD_NAMESPACE'), argument('K8S_POD_NAME')]
  if (namespace === '' || name === '') return true
  if (typeof stdin === 'string') return false
  const excluded = (stdin['exclude_namespaces'] ?? []) as readonly string[]
  return excluded.includes(namespace) || (stdin['pod_namespace'] === namespace && name.startsWith('istio-cni-node-'))
}

/** A folder of the node's cases; undefined when it is not there. */
function findFolder(kind: string): string | undefined {
  const node = casesFolder('node')
  const path = node === undefined ? undefined : join(node, kind)
  return path !== undefined && existsSync(path) ? path : undefined
}
