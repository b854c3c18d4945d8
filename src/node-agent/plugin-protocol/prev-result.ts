// SPDX-License-Identifier: Apache-2.0
// What the plugins before us in the chain made: read for the pod's addresses, checked for its format, and passed on as the bytes it came in.

import { formatPodIp } from './addresses.js'
import { CniRefusal, refusalCodes } from './refusal.js'
import { isCniVersion, toResultFormat, type CniVersion } from './versions.js'

/**
 * The pod's addresses of a previous result, in order. `version` is the configuration's. Throws CniRefusal (999) when the result is of another format than
 * `version`, or is not what its version says: passed on as it is, the runtime would read it wrongly.
 */
export function parsePrevResult(result: unknown, version: CniVersion): readonly string[] {
  if (!isObject(result)) throw refuse('prevResult is no object')
  const own = result['cniVersion'] ?? ''
  const format = toResultFormat(version)
  // The oldest format did not have to say its version.
  const isFit =
    typeof own === 'string' && (own === '' ? format === 'ip4-ip6' : isCniVersion(own) && toResultFormat(own) === format)
  if (!isFit) {
    throw refuse(
      `prevResult says cniVersion ${JSON.stringify(own)}, of another format than the configuration's ${version}; ` +
        'every plugin of the chain must answer in the version of its configuration',
    )
  }
  return format === 'ip4-ip6' ? selectFamilies(result) : selectIps(result)
}

function selectFamilies(result: Readonly<Record<string, unknown>>): readonly string[] {
  return ['ip4', 'ip6'].flatMap((family) => {
    const part = result[family] ?? undefined
    if (part === undefined) return []
    if (!isObject(part)) throw refuse(`prevResult.${family} is no object`)
    return [parseAddress(part['ip'], `prevResult.${family}.ip`)]
  })
}

function selectIps(result: Readonly<Record<string, unknown>>): readonly string[] {
  const ips = result['ips'] ?? []
  if (!Array.isArray(ips)) throw refuse('prevResult.ips is no list')
  return ips.map((entry: unknown, i) => {
    if (!isObject(entry)) throw refuse(`prevResult.ips[${i}] is no object`)
    return parseAddress(entry['address'], `prevResult.ips[${i}].address`)
  })
}

function parseAddress(value: unknown, where: string): string {
  const slash = typeof value === 'string' ? value.lastIndexOf('/') : -1
  const text = typeof value === 'string' && slash > 0 ? value.slice(0, slash) : ''
  const bits = typeof value === 'string' ? value.slice(slash + 1) : ''
  const address = formatPodIp(text)
  if (address === undefined || !/^[0-9]{1,3}$/.test(bits) || Number(bits) > (text.includes(':') ? 128 : 32)) {
    throw refuse(
      `${where} is ${value === undefined ? 'missing' : JSON.stringify(value)}, which is no address with a prefix length`,
    )
  }
  return address
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function refuse(message: string): CniRefusal {
  return new CniRefusal(refusalCodes.own, message)
}
