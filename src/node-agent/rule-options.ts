// SPDX-License-Identifier: Apache-2.0
// What the rules of one pod shall be: the agent's settings, changed by what the pod's annotations say. Nothing of an annotation goes on unchecked.

import { InvalidInput } from '../base/errors.js'
import { parseBoolean } from '../base/go-values.js'
import { formatIp, maskPrefix, parsePrefix } from '../base/ip.js'
import { labelOf, type Labels } from '../kube/records.js'
import type { PodRuleOptions } from './contracts.js'
import { annotationKeys } from './eligibility.js'

/** What the agent's settings say of every pod. */
export interface RuleDefaults {
  readonly ipv6: boolean
  readonly dnsCapture: boolean
  readonly probeAddress4: string
  readonly probeAddress6: string
}

/** One annotation that is not followed, and why. */
export interface Notice {
  readonly annotation: string
  readonly reason: string
}

const interfaceName = /^[A-Za-z0-9._-]{1,15}$/

/**
 * What is wrong and only makes for more capture is left out and told: a flag that is none, a port or prefix that is none. Throws InvalidInput for
 * the name of an interface that cannot be one, because then nobody knows what was meant to be captured.
 */
export function toPodRuleOptions(
  annotations: Labels | undefined,
  defaults: RuleDefaults,
  onNotice: (notice: Notice) => void = () => undefined,
): PodRuleOptions {
  const read = (annotation: string): string | undefined => labelOf(annotations, annotation)
  const flag = (annotation: string, byDefault: boolean): boolean => {
    const text = read(annotation)
    if (text === undefined) return byDefault
    try {
      return parseBoolean(text)
    } catch {
      onNotice({ annotation, reason: `"${text}" is neither true nor false` }) // as if it were not there
      return byDefault
    }
  }
  const list = <T>(annotation: string, wanted: string, toItem: (text: string) => T | undefined): readonly T[] =>
    splitList(read(annotation)).flatMap((text) => {
      const item = toItem(text)
      if (item === undefined) onNotice({ annotation, reason: `"${text}" is no ${wanted}` })
      return item === undefined ? [] : [item]
    })
  return {
    ipv6: defaults.ipv6,
    dnsCapture: flag(annotationKeys.dnsCapture, defaults.dnsCapture),
    bypassInbound: flag(annotationKeys.bypassInbound, false),
    virtualInterfaces: splitList(read(annotationKeys.virtualInterfaces)).map(checkInterface),
    excludedInboundPorts: unique(list(annotationKeys.excludedInboundPorts, 'TCP port', toPort)),
    excludedOutboundCidrs: unique(list(annotationKeys.excludedOutboundCidrs, 'IP prefix', toCidr)),
    probeAddress4: defaults.probeAddress4,
    probeAddress6: defaults.probeAddress6,
  }
}

export function isSameRuleOptions(a: PodRuleOptions, b: PodRuleOptions): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

function splitList(text: string | undefined): readonly string[] {
  return (text ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
}

function checkInterface(name: string): string {
  if (interfaceName.test(name) && name !== '.' && name !== '..') return name
  const shown = name.length > 40 ? `${name.slice(0, 40)}...` : name
  throw new InvalidInput(
    `annotation ${annotationKeys.virtualInterfaces}: ${JSON.stringify(shown)} is no interface name (1 to 15 letters, digits, ".", "_", "-")`,
  )
}

function toPort(text: string): number | undefined {
  const port = /^[1-9][0-9]{0,4}$/.test(text) ? Number(text) : 0
  return port >= 1 && port <= 65_535 ? port : undefined
}

function toCidr(text: string): string | undefined {
  const prefix = parsePrefix(text)
  return prefix === undefined ? undefined : `${formatIp(maskPrefix(prefix))}/${prefix.length}`
}

function unique<T>(items: readonly T[]): readonly T[] {
  return [...new Set(items)]
}
