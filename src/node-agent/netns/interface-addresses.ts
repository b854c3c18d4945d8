// SPDX-License-Identifier: Apache-2.0
// The addresses on the interfaces of the namespace that the thread is in, up or down, loopback too.

import { formatIp } from '../../base/ip.js'
import { NetlinkSocket } from './netlink-socket.js'
import { SystemCallError, formatErrno, netlinkRoute } from './sys.js'

const messageHeader = 16
const addressHeader = 8
const typeError = 2
const typeNewAddress = 20
const typeGetAddress = 22
const requestAndDump = 0x1 | 0x300
const attributeAddress = 1
const attributeLocal = 2

/** Canonical texts. Called inside the namespace. Throws SystemCallError. */
export function listInterfaceAddresses(): string[] {
  const socket = new NetlinkSocket(netlinkRoute)
  try {
    const request = Buffer.alloc(messageHeader + addressHeader)
    request.writeUInt32LE(request.length, 0)
    request.writeUInt16LE(typeGetAddress, 4)
    request.writeUInt16LE(requestAndDump, 6)
    socket.send(request)
    return socket.receive().flatMap(parseAddresses)
  } finally {
    socket.close()
  }
}

function parseAddresses(datagram: Buffer): string[] {
  const found: string[] = []
  for (let at = 0; at + messageHeader <= datagram.length;) {
    const length = datagram.readUInt32LE(at)
    const type = datagram.readUInt16LE(at + 4)
    if (length < messageHeader || at + length > datagram.length) break
    if (type === typeError)
      throw new SystemCallError('list addresses', formatErrno(-datagram.readInt32LE(at + messageHeader)))
    const address =
      type === typeNewAddress ? parseAddress(datagram.subarray(at + messageHeader, at + length)) : undefined
    if (address !== undefined) found.push(address)
    at += (length + 3) & ~3
  }
  return found
}

/** On a point-to-point link the address is the other end's, and the local one stands apart. */
function parseAddress(body: Buffer): string | undefined {
  let address: Buffer | undefined
  let local: Buffer | undefined
  for (let at = addressHeader; at + 4 <= body.length;) {
    const length = body.readUInt16LE(at)
    if (length < 4) break
    const value = body.subarray(at + 4, at + length)
    const type = body.readUInt16LE(at + 2)
    if (type === attributeAddress) address = value
    if (type === attributeLocal) local = value
    at += (length + 3) & ~3
  }
  const bytes = local ?? address
  return bytes === undefined || (bytes.length !== 4 && bytes.length !== 16) ? undefined : formatIp(bytes)
}
