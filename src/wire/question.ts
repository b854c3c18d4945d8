// SPDX-License-Identifier: Apache-2.0
// How a person may spell "what is this?". For whoever asks and whoever answers. Knows the spelling only, never what exists.

import { InvalidInput } from '../base/errors.js'
import { formatIp, maskPrefix, parseIp, parsePrefix } from '../base/ip.js'

/** A question, taken apart. IP text is canonical, host names are in lower case and without a last dot. */
export type Question =
  | { readonly form: 'ip'; readonly ip: string }
  /** `ip/length`: as written, and with the bits behind the length cleared (equal when there were none). */
  | { readonly form: 'range'; readonly range: string; readonly masked: string }
  /** `network/ip` or `network/ip/length`. */
  | { readonly form: 'key'; readonly key: string }
  | { readonly form: 'hostname'; readonly hostname: string }
  /** `name` is the name of an object or a host name. */
  | { readonly form: 'name'; readonly namespace: string; readonly name: string }
  | { readonly form: 'uid'; readonly uid: string }

const longest = 1024
const label = /^[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?$/

/** Reads a question. Throws InvalidInput that repeats it and says what is wrong when it can never have an answer. */
export function parseQuestion(text: string): Question {
  if (text === '') throw refuse(text, 'it is empty')
  if (text.length > longest) throw refuse(`${text.slice(0, 40)}...`, `it is longer than ${longest} characters`)
  // eslint-disable-next-line no-control-regex -- control characters are what is refused here
  if (/[\s\u0000-\u001f\u007f]/.test(text)) throw refuse(text, 'it holds a space or a control character')
  const slash = text.indexOf('/')
  if (slash < 0) return parseBare(text)
  const whole = parsePrefix(text)
  if (whole !== undefined) {
    const masked = formatIp(maskPrefix(whole))
    return {
      form: 'range',
      range: `${formatIp(whole.address)}/${whole.length}`,
      masked: `${masked}/${whole.length}`,
    }
  }
  return parseSlashed(text, slash)
}

function parseBare(text: string): Question {
  const ip = toCanonicalIp(text)
  if (ip !== undefined) return { form: 'ip', ip }
  if (isMeantAsIp(text)) throw refuse(text, 'it looks like an IP address and is none')
  const hostname = toHostname(text)
  if (hostname === undefined) throw refuse(text, 'it is neither an IP address nor a host name')
  return { form: 'hostname', hostname }
}

function parseSlashed(text: string, slash: number): Question {
  const first = text.slice(0, slash)
  const rest = text.slice(slash + 1)
  const ip = toCanonicalIp(rest)
  if (ip !== undefined) return { form: 'key', key: `${first}/${ip}` }
  const range = parsePrefix(rest)
  if (range !== undefined) return { form: 'key', key: `${first}/${formatIp(range.address)}/${range.length}` }
  if (rest.split('/').length > 2 || rest.startsWith('/')) return { form: 'uid', uid: text }
  if (rest.includes('/')) throw refuse(text, 'it has two slashes, and is no range in a network')
  if (isMeantAsIp(rest)) throw refuse(text, `"${rest}" looks like an IP address and is none`)
  const name = toHostname(rest)
  if (name === undefined || !label.test(first)) throw refuse(text, 'it is no namespace/name')
  return { form: 'name', namespace: first, name }
}

function toCanonicalIp(text: string): string | undefined {
  const bytes = parseIp(text)
  return bytes === undefined ? undefined : formatIp(bytes)
}

/** Digits between dots, or a colon in it: nothing that a name could be. */
function isMeantAsIp(text: string): boolean {
  return text.includes(':') || /^[0-9]*\.[0-9.]*$/.test(text)
}

/** Lower case, without the last dot; `*` may stand for the first label. undefined when it is no host name. */
function toHostname(text: string): string | undefined {
  const hostname = text.toLowerCase().replace(/\.$/, '')
  const labels = hostname.split('.')
  if (labels[0] === '*') labels.shift()
  return labels.every((part) => label.test(part)) ? hostname : undefined
}

function refuse(text: string, reason: string): InvalidInput {
  return new InvalidInput(
    `${JSON.stringify(text)} is not a question: ${reason}. ` +
      'Ask for an IP address, network/ip, a host name, namespace/name, namespace/hostname or the uid of a workload.',
  )
}
