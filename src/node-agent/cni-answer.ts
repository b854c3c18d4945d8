// SPDX-License-Identifier: Apache-2.0
// The CNI decision: what the plugin prints for one execution, and what is done about the pod before. For the CNI server. Reads no sockets and
// touches no namespace; all it does, it asks of CniDecisions.

import { formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { parseCniArgs } from './plugin-protocol/cni-args.js'
import { parseCommand, parseCommandName, type CniCommand } from './plugin-protocol/command.js'
import type { PluginAnswer, PluginCall } from './plugin-protocol/framing.js'
import { parsePrevResult } from './plugin-protocol/prev-result.js'
import { CniRefusal, formatRefusal, refusalCodes } from './plugin-protocol/refusal.js'
import { formatEmptyResult, formatVersions, impliedVersion } from './plugin-protocol/versions.js'
import type { CniDecisions, PodVerdict, RuntimePod } from './cni-decisions.js'

/** What became of a call, for logs and metrics. */
export type CniOutcome = 'enrolled' | 'passed' | 'done' | 'refused' | 'failed'

export interface CniRuling {
  readonly outcome: CniOutcome
  readonly answer: PluginAnswer
}

export interface CniJudge {
  readonly decisions: CniDecisions
  /** Waits a little for a pod that the tables lack. */
  readonly awaitVerdict: (pod: RuntimePod, signal: AbortSignal) => Promise<PodVerdict>
  readonly excludeNamespaces: ReadonlySet<string>
  readonly podNamespace: string
  /** istio-cni's included. */
  readonly agentPodPrefixes: readonly string[]
  readonly log: Logger
}

const nothing: PluginAnswer = { exitCode: 0, stdout: Buffer.alloc(0) }
const done: CniRuling = { outcome: 'done', answer: nothing }

/** Rules on one call. Never rejects: what goes wrong is the answer. */
export async function answerCniCall(judge: CniJudge, call: PluginCall, signal: AbortSignal): Promise<CniRuling> {
  try {
    // Without a command somebody looks what this program is; that is no error.
    if ((call.env.get('CNI_COMMAND') ?? '') === '') return done
    const name = parseCommandName(call.env)
    if (name === 'VERSION') return { outcome: 'done', answer: toAnswer(`${formatVersions()}\n`) }
    const command = parseCommand(name, call)
    if (name === 'ADD') return await answerAdd(judge, command, signal)
    if (name === 'DEL') await release(judge, command)
    return done
  } catch (error) {
    if (error instanceof CniRefusal) {
      return { outcome: error.cniCode === refusalCodes.own ? 'failed' : 'refused', answer: formatRefusal(error) }
    }
    return { outcome: 'failed', answer: formatRefusal(new CniRefusal(refusalCodes.own, formatError(error))) }
  }
}

async function answerAdd(judge: CniJudge, command: CniCommand, signal: AbortSignal): Promise<CniRuling> {
  // Everything that can be wrong with the call comes before anything is done for the pod.
  const args = parseCniArgs(command.cniArgs)
  const { config } = command
  const version = config.cniVersion ?? impliedVersion
  const ips = config.prevResult === undefined ? [] : parsePrevResult(config.prevResult.value, version)
  const passed: CniRuling = { outcome: 'passed', answer: toAnswer(toResult(command)) }

  const pod: RuntimePod = {
    namespace: args.podNamespace,
    name: args.podName,
    uid: args.podUid === '' ? undefined : args.podUid,
  }
  if (isLeftAlone(judge, pod, command)) return passed
  const title = `pod ${pod.namespace}/${pod.name}`
  const verdict = await judge.awaitVerdict(pod, signal)
  if (verdict.kind === 'ineligible') {
    judge.log.debug({ pod: `${pod.namespace}/${pod.name}`, reason: verdict.reason }, 'pod is not of the mesh')
    return passed
  }
  if (verdict.kind === 'unknown') {
    const hint =
      'the runtime tries again; if it stays so, see that addressd-node of this node can list pods and namespaces'
    throw new CniRefusal(refusalCodes.own, `${title} cannot be judged: ${verdict.reason}; ${hint}`)
  }
  try {
    const { netnsPath, containerId } = command
    await judge.decisions.enroll(verdict.pod, { ips, netnsPath, containerId, signal })
  } catch (error) {
    throw new CniRefusal(refusalCodes.own, formatNotEnrolled(title, error))
  }
  return { ...passed, outcome: 'enrolled' }
}

/** Why a pod stays out. Names it once: what comes from enrolment may begin with it already. */
export function formatNotEnrolled(title: string, error: unknown): string {
  const text = formatError(error)
  const reason = text.startsWith(`${title}: `) ? text.slice(title.length + 2) : text
  return `${title} could not be taken into the mesh: ${reason}`
}

/** Not a pod of Kubernetes, the agent's own pod, an excluded namespace, or a configuration that switches the mesh off. */
function isLeftAlone(judge: CniJudge, pod: RuntimePod, { config }: CniCommand): boolean {
  if (pod.namespace === '' || pod.name === '') return true
  if (isAgentPod(judge, pod, config.podNamespace)) return true
  if (judge.excludeNamespaces.has(pod.namespace) || config.excludeNamespaces.includes(pod.namespace)) return true
  return !config.ambientEnabled
}

function isAgentPod(judge: CniJudge, pod: RuntimePod, podNamespace: string): boolean {
  const isHome = pod.namespace === judge.podNamespace || pod.namespace === podNamespace
  return isHome && judge.agentPodPrefixes.some((prefix) => pod.name.startsWith(prefix))
}

/** The previous result as it came; without one, an empty result. */
function toResult({ config }: CniCommand): Uint8Array | string {
  if (config.prevResult !== undefined) return config.prevResult.bytes
  if (config.cniVersion !== undefined) return `${formatEmptyResult(config.cniVersion)}\n`
  throw new CniRefusal(
    refusalCodes.own,
    'the configuration has neither cniVersion nor prevResult, so no result can be written; add cniVersion to it',
  )
}

/** A removal never fails: whatever is left is found and mended later. */
async function release(judge: CniJudge, { netnsPath, containerId }: CniCommand): Promise<void> {
  if (netnsPath === '') return
  try {
    await judge.decisions.releaseNetns(netnsPath, containerId)
  } catch (error) {
    judge.log.warn(
      { netns: netnsPath, containerId, error: formatError(error) },
      'sandbox could not be let go of; the sweep will look again',
    )
  }
}

function toAnswer(stdout: Uint8Array | string): PluginAnswer {
  return { exitCode: 0, stdout: typeof stdout === 'string' ? Buffer.from(stdout) : stdout }
}
