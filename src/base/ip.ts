// SPDX-License-Identifier: Apache-2.0
// IP text and bytes, exactly as Go's net/netip reads and prints them. Knows no networks and no meshes.

/**
 * Reads an IP address. Strict: no leading zeros in octets, nothing around it. A zone (`fe80::1%eth0`) is accepted and dropped.
 * Gives 4 bytes for IPv4 and 16 for IPv6 (IPv4-mapped too); undefined when it is not an address.
 */
export function parseIp(text: string): Uint8Array | undefined {
  if (!text.includes(':')) return parseIpv4(text)
  const zone = text.indexOf('%')
  if (zone === text.length - 1) return undefined
  return parseIpv6(zone < 0 ? text : text.slice(0, zone))
}

/** Is this an address as parseIp reads it? Makes nothing, for whoever asks it of every row. */
export function isIp(text: string): boolean {
  return text.includes(':') ? parseIp(text) !== undefined : readIpv4(text) >= 0
}

/** The address as formatIp prints it; undefined when it is none. The same string where it is printed so already. */
export function toCanonicalIp(text: string): string | undefined {
  // An IPv4 address has one form only.
  if (!text.includes(':')) return readIpv4(text) < 0 ? undefined : text
  const ip = parseIp(text)
  if (ip === undefined) return undefined
  const canonical = formatIp(ip)
  return canonical === text ? text : canonical
}

function parseIpv4(text: string): Uint8Array | undefined {
  const value = readIpv4(text)
  if (value < 0) return undefined
  const out = new Uint8Array(4)
  out[0] = value / 0x1000000
  out[1] = value >>> 16
  out[2] = value >>> 8
  out[3] = value
  return out
}

/** The four octets as one number; -1 when the text is no IPv4 address. */
function readIpv4(text: string): number {
  let value = 0
  let octet = -1
  let dots = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x2e) {
      if (octet < 0 || ++dots > 3) return -1
      value = value * 256 + octet
      octet = -1
    } else {
      // A zero stands alone.
      if (code < 0x30 || code > 0x39 || octet === 0) return -1
      octet = octet < 0 ? code - 0x30 : octet * 10 + code - 0x30
      if (octet > 255) return -1
    }
  }
  return octet < 0 || dots < 3 ? -1 : value * 256 + octet
}

function parseIpv6(text: string): Uint8Array | undefined {
  const gap = text.indexOf('::')
  if (gap >= 0 && text.includes('::', gap + 1)) return undefined
  const head = parseGroups(gap < 0 ? text : text.slice(0, gap), gap < 0)
  const tail = gap < 0 ? [] : parseGroups(text.slice(gap + 2), true)
  if (head === undefined || tail === undefined) return undefined
  const length = head.length + tail.length
  if (gap < 0 ? length !== 16 : length > 14) return undefined
  const out = new Uint8Array(16)
  out.set(head, 0)
  out.set(tail, 16 - tail.length)
  return out
}

/** Colon-separated groups to bytes; a dotted quad may stand last only where `quadLast`. Empty text is no groups. */
function parseGroups(text: string, quadLast: boolean): number[] | undefined {
  if (text === '') return []
  const out: number[] = []
  const groups = text.split(':')
  for (const [i, group] of groups.entries()) {
    if (group.includes('.')) {
      const quad = quadLast && i === groups.length - 1 ? parseIpv4(group) : undefined
      if (quad === undefined) return undefined
      out.push(...quad)
    } else {
      if (!/^[0-9a-fA-F]{1,4}$/.test(group)) return undefined
      const value = Number.parseInt(group, 16)
      out.push(value >> 8, value & 255)
    }
  }
  return out
}

/** Prints 4 or 16 bytes canonically: RFC 5952 lower-case compressed IPv6, IPv4-mapped as `::ffff:a.b.c.d`. */
export function formatIp(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.')
  const mapped = bytes.subarray(0, 10).every((b) => b === 0) && bytes[10] === 255 && bytes[11] === 255
  if (mapped) return `::ffff:${bytes.subarray(12).join('.')}`
  const groups: number[] = []
  for (let i = 0; i < 16; i += 2) groups.push(((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0))
  const [start, length] = longestZeroRun(groups)
  const text = groups.map((g) => g.toString(16))
  if (length < 2) return text.join(':')
  return `${text.slice(0, start).join(':')}::${text.slice(start + length).join(':')}`
}

function longestZeroRun(groups: readonly number[]): [start: number, length: number] {
  let best: [number, number] = [0, 0]
  for (let i = 0; i < groups.length; i++) {
    let j = i
    while (j < groups.length && groups[j] === 0) j++
    if (j - i > best[1]) best = [i, j - i]
    if (j > i) i = j
  }
  return best
}

/** An address with a prefix length in bits. */
export interface Prefix {
  readonly address: Uint8Array
  readonly length: number
}

/** Reads `address/length` (no zone, no sign, no leading zeros in the length). The address is kept as written; see maskPrefix. */
export function parsePrefix(text: string): Prefix | undefined {
  const slash = text.lastIndexOf('/')
  if (slash < 0) return undefined
  const host = text.slice(0, slash)
  const bits = text.slice(slash + 1)
  if (host.includes('%') || !/^(0|[1-9][0-9]{0,2})$/.test(bits)) return undefined
  const address = parseIp(host)
  const length = Number(bits)
  if (address === undefined || length > address.length * 8) return undefined
  return { address, length }
}

/** The first `length` bits of the address, the rest zero. */
export function maskPrefix(prefix: Prefix): Uint8Array {
  const out = Uint8Array.from(prefix.address)
  for (let i = 0; i < out.length; i++) {
    const keep = Math.min(8, Math.max(0, prefix.length - i * 8))
    out[i] = (out[i] ?? 0) & (0xff00 >> keep) & 0xff
  }
  return out
}
