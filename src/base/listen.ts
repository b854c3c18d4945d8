// SPDX-License-Identifier: Apache-2.0
// Addresses to listen on, written as istiod's flags write them, and the one way to bind them. Opens nothing unless asked by a composition root.

import type { AddressInfo, Server } from 'node:net'
import { Fatal, InvalidInput, formatError } from './errors.js'
import { parseIp } from './ip.js'

export interface ListenAddress {
  /** A literal IP or a host name; undefined = every address of the machine. */
  readonly host: string | undefined
  /** 0 = any free port. */
  readonly port: number
}

/** Something that listens now. */
export interface BoundAddress {
  readonly host: string
  readonly port: number
}

/**
 * Reads `host:port`, `[v6]:port` or `:port` (every address). An empty text gives undefined: do not listen.
 * Throws InvalidInput for anything else.
 */
export function parseListenAddress(text: string): ListenAddress | undefined {
  if (text === '') return undefined
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*)):([0-9]{1,5})$/.exec(text)
  const port = Number(match?.[3])
  const bracketed = match?.[1]
  const host = bracketed ?? match?.[2]
  const hostIsFine =
    bracketed === undefined
      ? host === '' || /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/.test(host ?? '!')
      : parseIp(bracketed) !== undefined && bracketed.includes(':')
  if (host === undefined || !hostIsFine || !(port <= 65_535)) {
    throw new InvalidInput(
      `"${text}" is not an address to listen on; write it like 127.0.0.1:15010, [::1]:15010 or :15010 (every address), or leave it empty`,
    )
  }
  return { host: host === '' ? undefined : host, port }
}

/** The inverse of parseListenAddress: undefined gives an empty text. */
export function formatListenAddress(address: ListenAddress | undefined): string {
  if (address === undefined) return ''
  const host = address.host ?? ''
  return `${host.includes(':') ? `[${host}]` : host}:${address.port}`
}

/** True for addresses of this machine alone: 127.0.0.0/8 and ::1, IPv4-mapped too. */
export function isLoopback(address: string): boolean {
  const bytes = parseIp(address)
  if (bytes === undefined) return false
  if (bytes.length === 4) return bytes[0] === 127
  const head = bytes.subarray(0, 10).every((b) => b === 0)
  if (head && bytes[10] === 255 && bytes[11] === 255) return bytes[12] === 127
  return (
    head &&
    bytes[10] === 0 &&
    bytes[11] === 0 &&
    bytes[12] === 0 &&
    bytes[13] === 0 &&
    bytes[14] === 0 &&
    bytes[15] === 1
  )
}

/** Connections that wait to be accepted: a whole fleet may come back at once, and what overflows is cut or waits for seconds. The kernel has the last word. */
const backlog = 4096

/**
 * Binds a server. `flag` names the setting that chose the address, for the message. Rejects with Fatal when the address cannot be had.
 */
export function listen(server: Server, address: ListenAddress, flag: string): Promise<BoundAddress> {
  return new Promise((resolve, reject) => {
    const onError = (error: unknown): void => {
      reject(new Fatal(formatListenFailure(error, address, flag), error))
    }
    server.once('error', onError)
    const host = address.host === undefined ? {} : { host: address.host }
    server.listen({ port: address.port, backlog, ...host }, () => {
      server.removeListener('error', onError)
      resolve(toBoundAddress(server))
    })
  })
}

/** What a listening TCP server is bound to. */
export function toBoundAddress(server: Server): BoundAddress {
  const bound = server.address() as AddressInfo
  return { host: bound.address, port: bound.port }
}

/** Why an address could not be had, with the flag to change. */
export function formatListenFailure(error: unknown, address: ListenAddress, flag: string): string {
  const where = `${flag}=${formatListenAddress(address)}`
  const code = (error as NodeJS.ErrnoException).code
  if (code === 'EADDRINUSE') return `${where}: this address is in use by another process; stop it or choose another one`
  if (code === 'EACCES') return `${where}: not allowed to listen here; ports below 1024 need privileges`
  if (code === 'EADDRNOTAVAIL') return `${where}: this machine has no such address`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `${where}: the host name is not known`
  return `${where}: cannot listen: ${formatError(error)}`
}
