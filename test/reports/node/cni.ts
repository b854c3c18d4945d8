// SPDX-License-Identifier: Apache-2.0
// The runtime of a report: puts our plugin last into the configuration on disk, and runs the executable as the last of the chain.

import fs from 'node:fs'
import { findPlugin, pluginProgram, runPlugin } from '../../support/native-plugin.js'
import { isRecord } from '../cases.js'
import type { NodeRoom } from './room.js'

export interface CniAction {
  readonly command: string
  readonly pod?: string
  readonly uid?: string
  readonly netns: string
  readonly ips?: readonly string[]
  readonly containerId: string
}

export interface CniRun {
  readonly exit: number
  readonly output: string
  /** What a person sees: the message of the CNI error, else stderr. */
  readonly error: string
  readonly prevResult: string | undefined
  readonly tookMs: number
}

/** What of a room a runtime needs. */
export type CniPlace = Pick<NodeRoom, 'host' | 'settings'>

const pluginName = 'addressd-cni'

/** Tokens that stand for names of this product. */
export const tokens: Readonly<Record<string, string>> = {
  $ours: pluginName,
  $agentPod: 'addressd-node-x7f2q',
  $agentDaemonSet: 'addressd-node',
}

/** Runs the plugin once; resolves with its end. */
export async function runCni(room: CniPlace, action: CniAction): Promise<CniRun> {
  const { cniVersion, name, entry } = install(room)
  const { command, pod, uid, ips, containerId } = action
  const netns = toNetnsPath(room, action.netns)
  const prevResult =
    ips === undefined
      ? undefined
      : {
          cniVersion,
          interfaces: [{ name: 'eth0', sandbox: netns }],
          ips: ips.map((ip) => ({
            version: ip.includes(':') ? '6' : '4',
            address: `${ip}/${ip.includes(':') ? 128 : 32}`,
            interface: 0,
          })),
        }
  const stdin = JSON.stringify({ ...entry, cniVersion, name, ...(prevResult === undefined ? {} : { prevResult }) })
  const [namespace = '', podName = ''] = (pod ?? '').split('/')
  const args = [
    'IgnoreUnknown=1',
    ...(pod === undefined ? [] : [`K8S_POD_NAMESPACE=${namespace}`, `K8S_POD_NAME=${podName}`]),
    `K8S_POD_INFRA_CONTAINER_ID=${containerId}`,
    ...(uid === undefined ? [] : [`K8S_POD_UID=${uid}`]),
  ]
  const run = await runPlugin(
    {
      CNI_COMMAND: command,
      CNI_CONTAINERID: containerId,
      CNI_NETNS: netns,
      CNI_IFNAME: 'eth0',
      CNI_PATH: room.host.at('bin'),
      CNI_ARGS: args.join(';'),
    },
    stdin,
    room.host.at(`bin/${pluginName}`),
  )
  return {
    exit: run.exitCode ?? -1,
    output: run.stdout,
    error: toError(run.stdout) ?? run.stderr,
    prevResult: prevResult === undefined ? undefined : JSON.stringify(prevResult),
    tookMs: run.tookMs,
  }
}

/** The message of a CNI error on stdout. */
function toError(stdout: string): string | undefined {
  try {
    const value: unknown = JSON.parse(stdout)
    return isRecord(value) && typeof value['msg'] === 'string' ? value['msg'] : undefined
  } catch {
    // No JSON, so no CNI error.
    return undefined
  }
}

function toNetnsPath(room: CniPlace, name: string): string {
  if (name === '') return ''
  if (name === 'gone') return '/var/run/netns/adt-gone-for-good'
  const netns = room.host.netns(name)
  if (netns === undefined) throw new Error(`the host has no namespace ${name}`)
  return netns.path
}

/** Puts program and entry in their places where they are missing; gives what a runtime takes from the configuration. */
function install(room: CniPlace): { cniVersion: string; name: string; entry: Record<string, unknown> } {
  const missing = findPlugin()
  if (missing !== undefined) throw new Error(missing)
  const program = room.host.at(`bin/${pluginName}`)
  if (!fs.existsSync(program)) fs.copyFileSync(pluginProgram, program)
  const folder = room.host.at('net.d')
  const file = fs
    .readdirSync(folder)
    .filter((one) => one.endsWith('.conflist'))
    .sort()[0]
  if (file === undefined) throw new Error('net.d/ holds no conflist')
  const list = JSON.parse(fs.readFileSync(`${folder}/${file}`, 'utf8')) as {
    cniVersion?: string
    name?: string
    plugins: Record<string, unknown>[]
  }
  let entry = list.plugins.find(({ type }) => type === pluginName)
  if (entry === undefined) {
    entry = {
      type: pluginName,
      cni_agent_run_dir: room.settings.runFolder,
      exclude_namespaces: room.settings.excludeNamespaces,
      pod_namespace: room.settings.podNamespace,
    }
    list.plugins.push(entry)
    fs.writeFileSync(`${folder}/${file}`, JSON.stringify(list))
  }
  return { cniVersion: list.cniVersion ?? '0.3.1', name: list.name ?? 'net', entry }
}
