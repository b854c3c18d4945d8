// SPDX-License-Identifier: Apache-2.0
// A pod's annotations as options of its rules. For enrolment and the sweep. Every value is checked here, before it goes anywhere: what its owner may get
// wrong without harm is ignored with a warning, what would end in the rules is refused.

import { InvalidInput } from '../../base/errors.js'
import { parseBoolean } from '../../base/go-values.js'
import { formatIp, maskPrefix, parseIp, parsePrefix } from '../../base/ip.js'
import { shortenText } from '../../base/short-text.js'
import type { PodRuleOptions } from '../contracts.js'
import { dnsPort, hbonePort, inboundPort, outboundPort } from './rule-table.js'

export const ruleAnnotations = {
  bypassInbound: 'ambient.istio.io/bypass-inbound-capture',
  dnsCapture: 'ambient.istio.io/dns-capture',
  virtualInterfaces: 'istio.io/reroute-virtual-interfaces',
  excludedInboundPorts: 'addressd.io/exclude-inbound-ports',
  excludedOutboundCidrs: 'addressd.io/exclude-outbound-cidrs',
} as const

/** The agent's settings that a pod's rules depend on. */
export type RuleDefaults = Pick<PodRuleOptions, 'ipv6' | 'dnsCapture' | 'probeAddress4' | 'probeAddress6'>

export interface PodOverrides {
  readonly options: PodRuleOptions
  /** One sentence for each annotation that was ignored; names annotation and value, not the pod. */
  readonly warnings: readonly string[]
}

/** The pod that is spoken of, and what is written on it. */
export interface AnnotatedPod {
  readonly namespace: string
  readonly name: string
  readonly annotations: Readonly<Record<string, string>>
}

const longestList = 64
const longestShown = 64
const interfaceName = /^[A-Za-z0-9._-]{1,15}$/
const portNumber = /^[1-9][0-9]{0,4}$/
const meshPorts = [outboundPort, inboundPort, hbonePort, dnsPort]

/** Throws InvalidInput that names pod, annotation and value. */
export function parsePodOverrides(pod: AnnotatedPod, defaults: RuleDefaults): PodOverrides {
  const warnings: string[] = []
  const boolean = (annotation: string): boolean | undefined => {
    const text = readAnnotation(pod, annotation)
    if (text === undefined) return undefined
    try {
      return parseBoolean(text)
    } catch {
      warnings.push(`annotation ${annotation} is ignored: ${quote(text)} is not a boolean; write true or false`)
      return undefined
    }
  }
  const options: PodRuleOptions = {
    ipv6: defaults.ipv6,
    dnsCapture: boolean(ruleAnnotations.dnsCapture) ?? defaults.dnsCapture,
    bypassInbound: boolean(ruleAnnotations.bypassInbound) ?? false,
    virtualInterfaces: parseList(pod, ruleAnnotations.virtualInterfaces, parseInterfaceName),
    excludedInboundPorts: unique(parseList(pod, ruleAnnotations.excludedInboundPorts, parsePort)),
    excludedOutboundCidrs: unique(parseList(pod, ruleAnnotations.excludedOutboundCidrs, parseCidr)),
    probeAddress4: defaults.probeAddress4,
    probeAddress6: defaults.probeAddress6,
  }
  return { options, warnings }
}

/** Gives the entry's value, or text that says what it should be. */
type ParseEntry<T> = (text: string) => { readonly value: T } | { readonly problem: string }

function parseList<T>(pod: AnnotatedPod, annotation: string, parseEntry: ParseEntry<T>): readonly T[] {
  const entries = (readAnnotation(pod, annotation) ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
  const refuse = (problem: string): InvalidInput =>
    new InvalidInput(`pod ${pod.namespace}/${pod.name}: annotation ${annotation}: ${problem}`)
  if (entries.length > longestList) throw refuse(`has ${entries.length} entries; ${longestList} are the most`)
  return entries.map((entry) => {
    const parsed = parseEntry(entry)
    if ('problem' in parsed) throw refuse(`${quote(entry)} ${parsed.problem}`)
    return parsed.value
  })
}

const parseInterfaceName: ParseEntry<string> = (text) =>
  interfaceName.test(text) && text !== '.' && text !== '..'
    ? { value: text }
    : { problem: 'is no name of an interface; write 1 to 15 letters, digits, dots, underscores and hyphens' }

const parsePort: ParseEntry<number> = (text) => {
  const port = portNumber.test(text) ? Number(text) : 0
  if (port < 1 || port > 65535) return { problem: 'is no port; write a number from 1 to 65535' }
  // Uncaptured, they would let anybody speak to the proxy as if the application did.
  if (meshPorts.includes(port)) return { problem: "is one of the mesh's own ports, which cannot be excluded" }
  return { value: port }
}

const parseCidr: ParseEntry<string> = (text) => {
  const address = parseIp(text)
  const prefix = address === undefined ? parsePrefix(text) : { address, length: address.length * 8 }
  const isZoned = text.includes('%')
  if (prefix === undefined || isZoned) return { problem: 'is no prefix; write for example 10.0.0.0/8' }
  const masked = formatIp(maskPrefix(prefix))
  if (masked.startsWith('::ffff:') && masked.includes('.')) return { problem: 'is an IPv4 prefix in IPv6; write IPv4' }
  return { value: `${masked}/${prefix.length}` }
}

function readAnnotation(pod: AnnotatedPod, annotation: string): string | undefined {
  return Object.hasOwn(pod.annotations, annotation) ? pod.annotations[annotation] : undefined
}

function unique<T>(values: readonly T[]): readonly T[] {
  return [...new Set(values)]
}

function quote(text: string): string {
  return JSON.stringify(shortenText(text, longestShown))
}
