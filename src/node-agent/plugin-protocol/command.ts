// SPDX-License-Identifier: Apache-2.0
// One execution of the plugin, read and checked in the order that CNI's own library checks: command, variables, stdin, name, form of the names, version.
// Decides nothing about pods.

import { selectValue } from './top-level.js'
import { maxStdinBytes, type PluginCall } from './framing.js'
import { CniRefusal, refusalCodes } from './refusal.js'
import { impliedVersion, isCniVersion, isSince, supportedVersions, type CniVersion } from './versions.js'

export type CniCommandName = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION'

/** What the configuration says to us. Keys of istio-cni's that only its own plugin needed are left alone. */
export interface PluginConfig {
  /** Undefined when the configuration says none. */
  readonly cniVersion: CniVersion | undefined
  readonly excludeNamespaces: readonly string[]
  /** Empty text when it says none. */
  readonly podNamespace: string
  /** False only where it is switched off. */
  readonly ambientEnabled: boolean
  /** Parsed, with its bytes as they came. */
  readonly prevResult: { readonly value: unknown; readonly bytes: Buffer } | undefined
}

export interface CniCommand {
  readonly name: Exclude<CniCommandName, 'VERSION'>
  readonly containerId: string
  readonly netnsPath: string
  readonly cniArgs: string
  readonly config: PluginConfig
}

const required: Readonly<Record<CniCommandName, readonly string[]>> = {
  ADD: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_PATH'],
  CHECK: ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_PATH'],
  DEL: ['CNI_CONTAINERID', 'CNI_IFNAME', 'CNI_PATH'],
  GC: ['CNI_PATH'],
  STATUS: ['CNI_PATH'],
  VERSION: [],
}

/** The oldest version that knows the command, where it is not the first. */
const since: Partial<Record<CniCommandName, CniVersion>> = { CHECK: '0.4.0', GC: '1.1.0', STATUS: '1.1.0' }

const namePattern = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/

/** Reads the name of the command. Throws CniRefusal (4) for one that CNI does not have. */
export function parseCommandName(env: ReadonlyMap<string, string>): CniCommandName {
  const name = env.get('CNI_COMMAND') ?? ''
  if (Object.hasOwn(required, name)) return name as CniCommandName
  throw environment(`CNI_COMMAND is "${name}"; it takes ${Object.keys(required).join(', ')}`)
}

/** Reads everything else. Throws CniRefusal with CNI's code. */
export function parseCommand(name: CniCommand['name'], call: PluginCall): CniCommand {
  const missing = required[name].filter((variable) => (call.env.get(variable) ?? '') === '')
  if (missing.length > 0) throw environment(`required variables are missing for ${name}: ${missing.join(', ')}`)
  const stdin = parseStdin(call.stdin)
  checkNetworkName(stdin['name'])
  const containerId = call.env.get('CNI_CONTAINERID') ?? ''
  if (name !== 'GC' && name !== 'STATUS') {
    if (!namePattern.test(containerId)) {
      throw environment(
        'CNI_CONTAINERID must begin with a letter or digit; letters, digits, "_", "." and "-" follow',
        containerId,
      )
    }
    checkInterfaceName(call.env.get('CNI_IFNAME') ?? '')
  }
  const cniVersion = parseVersion(stdin['cniVersion'])
  const first = since[name]
  if (first !== undefined && !isSince(cniVersion ?? impliedVersion, first)) {
    const version = cniVersion ?? `none, which means ${impliedVersion}`
    throw new CniRefusal(
      refusalCodes.version,
      `the configuration's cniVersion is ${version}; ${name} came with ${first}`,
    )
  }
  return {
    name,
    containerId,
    netnsPath: call.env.get('CNI_NETNS') ?? '',
    cniArgs: call.env.get('CNI_ARGS') ?? '',
    config: toConfig(stdin, cniVersion, call.stdin),
  }
}

function parseStdin(stdin: Buffer): Readonly<Record<string, unknown>> {
  if (stdin.length > maxStdinBytes) {
    throw decoding(`the configuration on stdin is larger than ${maxStdinBytes} bytes`)
  }
  let value: unknown
  try {
    value = JSON.parse(stdin.toString('utf8'))
  } catch (error) {
    throw decoding(
      stdin.length === 0
        ? 'there is no configuration on stdin; the runtime must send the network configuration as JSON'
        : `the configuration on stdin is no JSON: ${(error as Error).message}`,
    )
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw decoding('the configuration on stdin is no JSON object')
  }
  return value as Record<string, unknown>
}

function checkNetworkName(name: unknown): void {
  if (name !== undefined && name !== null && typeof name !== 'string')
    throw decoding('the network name in the configuration is no text')
  if (typeof name !== 'string' || name === '') {
    throw new CniRefusal(refusalCodes.config, 'the configuration has no network name ("name")')
  }
  if (!namePattern.test(name)) {
    const rule = 'must begin with a letter or digit; letters, digits, "_", "." and "-" follow'
    throw new CniRefusal(refusalCodes.config, `the network name ("name") in the configuration ${rule}`, name)
  }
}

function checkInterfaceName(name: string): void {
  const fits = Buffer.byteLength(name) <= 15 && name !== '.' && name !== '..' && !/[/:\s]/u.test(name)
  if (!fits)
    throw environment('CNI_IFNAME must have 1-15 bytes, without "/", ":" or blanks, and not be "." or ".."', name)
}

function parseVersion(value: unknown): CniVersion | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value !== 'string') throw decoding('cniVersion in the configuration is no text')
  if (isCniVersion(value)) return value
  throw new CniRefusal(
    refusalCodes.version,
    `the configuration's cniVersion ${JSON.stringify(value)} is not known here`,
    `known versions: ${supportedVersions.join(', ')}`,
  )
}

function toConfig(
  stdin: Readonly<Record<string, unknown>>,
  cniVersion: CniVersion | undefined,
  raw: Buffer,
): PluginConfig {
  const excluded = stdin['exclude_namespaces'] ?? []
  if (!Array.isArray(excluded) || excluded.some((name) => typeof name !== 'string')) {
    throw new CniRefusal(refusalCodes.own, 'exclude_namespaces in the configuration is no list of names')
  }
  const podNamespace = stdin['pod_namespace'] ?? ''
  if (typeof podNamespace !== 'string')
    throw new CniRefusal(refusalCodes.own, 'pod_namespace in the configuration is no text')
  const ambient = stdin['ambient_enabled'] ?? true
  if (typeof ambient !== 'boolean')
    throw new CniRefusal(refusalCodes.own, 'ambient_enabled in the configuration is neither true nor false')
  const value = stdin['prevResult'] ?? undefined
  const span = value === undefined ? undefined : selectValue(raw, 'prevResult')
  return {
    cniVersion,
    excludeNamespaces: excluded as string[],
    podNamespace,
    ambientEnabled: ambient,
    prevResult: span === undefined ? undefined : { value, bytes: raw.subarray(span.start, span.end) },
  }
}

function environment(message: string, details?: string): CniRefusal {
  return new CniRefusal(refusalCodes.environment, message, details)
}

function decoding(message: string): CniRefusal {
  return new CniRefusal(refusalCodes.decoding, message)
}
