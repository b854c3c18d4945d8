// SPDX-License-Identifier: Apache-2.0
// The event that istio-cni's plugin posts to `/cmdadd` for a pod it takes for one of the mesh. Its plugin may still be on a host that our agent serves.

import { InvalidInput } from '../../base/errors.js'
import { formatPodIp } from './addresses.js'

/** Empty text where the event says nothing. */
export interface AddEvent {
  readonly netns: string
  readonly podName: string
  readonly podNamespace: string
  /** Canonical. */
  readonly ips: readonly string[]
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** Reads a body. Keys are found in any case, unknown ones are left alone, JSON null is an event that says nothing. Throws InvalidInput. */
export function parseAddEvent(body: Buffer): AddEvent {
  const event = toFields(parseJson(body), 'the event')
  const ips = event.get('ips') ?? []
  if (!Array.isArray(ips)) throw new InvalidInput('IPs is no list')
  return {
    netns: toText(event.get('netns'), 'Netns'),
    podName: toText(event.get('podname'), 'PodName'),
    podNamespace: toText(event.get('podnamespace'), 'PodNamespace'),
    ips: ips.map((entry: unknown, i) => parseEntry(entry, `IPs[${i}]`)),
  }
}

function parseJson(body: Buffer): unknown {
  if (body.length === 0) throw new InvalidInput('the body is empty; an event is one JSON object')
  try {
    return JSON.parse(body.toString('utf8'))
  } catch (error) {
    throw new InvalidInput(`the body is not one JSON object: ${(error as Error).message}`, error)
  }
}

function parseEntry(value: unknown, where: string): string {
  const entry = toFields(value, where)
  const address = toFields(entry.get('address'), `${where}.Address`)
  const mask = toText(address.get('mask'), `${where}.Address.Mask`)
  if (!base64.test(mask)) throw new InvalidInput(`${where}.Address.Mask is not base64`)
  const gateway = toText(entry.get('gateway'), `${where}.Gateway`)
  if (gateway !== '' && formatPodIp(gateway) === undefined) {
    throw new InvalidInput(`invalid IP address: ${gateway} (${where}.Gateway)`)
  }
  const number = entry.get('interface') ?? 0
  if (!Number.isInteger(number)) throw new InvalidInput(`${where}.Interface is no whole number`)
  const ip = toText(address.get('ip'), `${where}.Address.IP`)
  const canonical = formatPodIp(ip)
  if (canonical === undefined) throw new InvalidInput(`invalid IP address: ${ip === '' ? `none in ${where}` : ip}`)
  return canonical
}

/** An object's fields by lower-case key, the last of equal ones; nothing for null or what is absent. */
function toFields(value: unknown, where: string): ReadonlyMap<string, unknown> {
  if (value === undefined || value === null) return new Map()
  if (typeof value !== 'object' || Array.isArray(value)) throw new InvalidInput(`${where} is no object`)
  return new Map(Object.entries(value).map(([key, field]) => [key.toLowerCase(), field as unknown]))
}

function toText(value: unknown, where: string): string {
  if (value === undefined || value === null) return ''
  if (typeof value !== 'string') throw new InvalidInput(`${where} is a ${typeof value}, not text`)
  return value
}
