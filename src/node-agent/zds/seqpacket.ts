// SPDX-License-Identifier: Apache-2.0
// Sockets that Node does not have: AF_UNIX SOCK_SEQPACKET, one record a call, at most one descriptor beside it. Bare calls, synchronous, never blocking.
// For the socket classes beside it. Owns no state but a few fixed buffers: every call fills them and reads them before it returns.

import { getSystemErrorName } from 'node:util'
import koffi from 'koffi'
import { Fatal } from '../../base/errors.js'

// The symbols of the process itself, whatever C library it is linked with.
const libc = koffi.load(null)
const call = {
  socket: libc.func('int socket(int, int, int)'),
  socketpair: libc.func('int socketpair(int, int, int, void *)'),
  bind: libc.func('int bind(int, const void *, uint32_t)'),
  listen: libc.func('int listen(int, int)'),
  connect: libc.func('int connect(int, const void *, uint32_t)'),
  accept4: libc.func('int accept4(int, void *, void *, int)'),
  recvmsg: libc.func('intptr_t recvmsg(int, void *, int)'),
  sendmsg: libc.func('intptr_t sendmsg(int, const void *, int)'),
  getsockopt: libc.func('int getsockopt(int, int, int, void *, void *)'),
  close: libc.func('int close(int)'),
}

// The same numbers on x86_64 and arm64.
const AF_UNIX = 1
const SOCK_SEQPACKET = 5
const SOCK_CLOEXEC = 0o2000000
const SOCK_NONBLOCK = 0o4000
const MSG_DONTWAIT = 0x40
const MSG_NOSIGNAL = 0x4000
const MSG_CMSG_CLOEXEC = 0x40000000
const MSG_CTRUNC = 0x8
const MSG_TRUNC = 0x20
const SOL_SOCKET = 1
const SCM_RIGHTS = 1
const SO_PEERCRED = 17
const SO_PEERPIDFD = 77

/** A longer record arrives cut. Four times what either side may send, so that only nonsense is. */
const mostReceived = 4096
const mostSent = 16_384
/** As many as a record of a strange peer may bring here; the kernel drops the others. */
const mostDescriptors = 16
/** sun_path, without the final zero byte. */
const longestPath = 107

// struct msghdr: name, namelen + padding, iov, iovlen, control, controllen, flags + padding.
const HEADER = { size: 56, iov: 16, iovCount: 24, control: 32, controlLength: 40, flags: 48 } as const
// struct cmsghdr: len, level, type, then the descriptors.
const CONTROL = { level: 8, type: 12, descriptors: 16 } as const

export const pointerBytes = koffi.sizeof('void *')

/** Memory at a fixed place; the engine never moves it. */
function toFixed(size: number): { address: bigint; buffer: Buffer } {
  const address = koffi.alloc('uint8_t', size) as bigint
  const buffer = Buffer.from(koffi.view(address, size))
  buffer.fill(0)
  return { address, buffer }
}

const header = toFixed(HEADER.size)
const vector = toFixed(16)
const content = toFixed(Math.max(mostReceived, mostSent))
const control = toFixed(CONTROL.descriptors + 4 * mostDescriptors)
const name = toFixed(2 + longestPath + 1)
const small = toFixed(32)
header.buffer.writeBigUInt64LE(vector.address, HEADER.iov)
header.buffer.writeBigUInt64LE(1n, HEADER.iovCount)
vector.buffer.writeBigUInt64LE(content.address, 0)

/** A call that the kernel refused. `code` is the name of the error number. */
export class SocketError extends Error {
  readonly code: string
  constructor(syscall: string, errno: number) {
    const code = getSystemErrorName(-errno)
    super(`${syscall}: ${code}`)
    this.name = 'SocketError'
    this.code = code
  }
}

const codes = koffi.os.errno
const isInterrupted = (errno: number): boolean => errno === codes['EINTR']
const isNotNow = (errno: number): boolean => errno === codes['EAGAIN']

/** One record. Its descriptors belong to the receiver, who closes them; `cut`: bytes or descriptors did not fit. */
export interface ReceivedRecord {
  readonly bytes: Buffer
  readonly descriptors: readonly number[]
  readonly cut: boolean
}

function writeName(path: string): number {
  const bytes = Buffer.from(path)
  if (bytes.length === 0 || bytes.length > longestPath || bytes.includes(0)) {
    throw new Fatal(`"${path}" cannot be the path of a socket: 1 to ${longestPath} bytes, none of them zero`)
  }
  name.buffer.fill(0)
  name.buffer.writeUInt16LE(AF_UNIX, 0)
  bytes.copy(name.buffer, 2)
  return 2 + bytes.length + 1
}

function openSocket(): number {
  const fd = call.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) as number
  if (fd < 0) throw new SocketError('socket', koffi.errno())
  return fd
}

/** A listening socket at the path, which must be free. Throws SocketError. */
export function listenAt(path: string, backlog: number): number {
  const length = writeName(path)
  const fd = openSocket()
  for (const [syscall, run] of [
    ['bind', () => call.bind(fd, name.address, length) as number],
    ['listen', () => call.listen(fd, backlog) as number],
  ] as const) {
    if (run() === 0) continue
    const error = new SocketError(syscall, koffi.errno())
    closeDescriptor(fd)
    throw error
  }
  return fd
}

/** A connected socket. Throws SocketError: ENOENT or ECONNREFUSED without a listener, EAGAIN when its backlog is full. */
export function connectTo(path: string): number {
  const length = writeName(path)
  const fd = openSocket()
  if (call.connect(fd, name.address, length) === 0) return fd
  const error = new SocketError('connect', koffi.errno())
  closeDescriptor(fd)
  throw error
}

/** The next waiting connection; undefined when there is none. Throws SocketError (out of descriptors, for one). */
export function acceptOne(listener: number): number | undefined {
  for (;;) {
    const fd = call.accept4(listener, null, null, SOCK_CLOEXEC | SOCK_NONBLOCK) as number
    if (fd >= 0) return fd
    const errno = koffi.errno()
    if (isNotNow(errno)) return undefined
    if (!isInterrupted(errno) && errno !== codes['ECONNABORTED']) throw new SocketError('accept', errno)
  }
}

/**
 * Gives the kernel one record, with the descriptor when there is one (it stays the caller's, who may close it afterwards). False: not now, wait until
 * the socket is writable. Throws SocketError.
 */
export function sendRecord(fd: number, bytes: Uint8Array, descriptor?: number): boolean {
  if (bytes.length === 0 || bytes.length > mostSent) {
    throw new RangeError(`a record has 1 to ${mostSent} bytes, not ${bytes.length}`)
  }
  content.buffer.set(bytes)
  vector.buffer.writeBigUInt64LE(BigInt(bytes.length), 8)
  if (descriptor === undefined) {
    writeControl(0n, 0n)
  } else {
    const length = CONTROL.descriptors + 4
    control.buffer.writeBigUInt64LE(BigInt(length), 0)
    control.buffer.writeInt32LE(SOL_SOCKET, CONTROL.level)
    control.buffer.writeInt32LE(SCM_RIGHTS, CONTROL.type)
    control.buffer.writeInt32LE(descriptor, CONTROL.descriptors)
    writeControl(control.address, BigInt((length + 7) & ~7))
  }
  for (;;) {
    if (Number(call.sendmsg(fd, header.address, MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0) return true
    const errno = koffi.errno()
    if (isNotNow(errno)) return false
    if (!isInterrupted(errno)) throw new SocketError('sendmsg', errno)
  }
}

/** The next record; 'nothing' when none waits; 'end' when the peer is gone (an empty record looks the same). Throws SocketError. */
export function receiveRecord(fd: number): ReceivedRecord | 'nothing' | 'end' {
  vector.buffer.writeBigUInt64LE(BigInt(mostReceived), 8)
  writeControl(control.address, BigInt(control.buffer.length))
  let length: number
  do {
    length = Number(call.recvmsg(fd, header.address, MSG_CMSG_CLOEXEC | MSG_DONTWAIT))
    if (length >= 0) break
    const errno = koffi.errno()
    if (isNotNow(errno)) return 'nothing'
    if (errno === codes['ECONNRESET']) return 'end'
    if (!isInterrupted(errno)) throw new SocketError('recvmsg', errno)
  } while (length < 0)
  const flags = header.buffer.readInt32LE(HEADER.flags)
  const descriptors = readDescriptors(Number(header.buffer.readBigUInt64LE(HEADER.controlLength)))
  if (length === 0 && descriptors.length === 0) return 'end'
  const bytes = Buffer.from(content.buffer.subarray(0, length))
  return { bytes, descriptors, cut: (flags & (MSG_TRUNC | MSG_CTRUNC)) !== 0 }
}

function writeControl(address: bigint, length: bigint): void {
  header.buffer.writeBigUInt64LE(address, HEADER.control)
  header.buffer.writeBigUInt64LE(length, HEADER.controlLength)
  header.buffer.writeInt32LE(0, HEADER.flags)
}

function readDescriptors(filled: number): readonly number[] {
  const found: number[] = []
  for (let at = 0; at + CONTROL.descriptors <= filled;) {
    const length = Number(control.buffer.readBigUInt64LE(at))
    if (length < CONTROL.descriptors) break
    const isRights =
      control.buffer.readInt32LE(at + CONTROL.level) === SOL_SOCKET &&
      control.buffer.readInt32LE(at + CONTROL.type) === SCM_RIGHTS
    for (let fd = at + CONTROL.descriptors; isRights && fd + 4 <= at + length; fd += 4) {
      found.push(control.buffer.readInt32LE(fd))
    }
    at += (length + 7) & ~7
  }
  return found
}

/** Two sockets connected with each other. Throws SocketError. */
export function openPair(): readonly [number, number] {
  if (call.socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, small.address) !== 0) {
    throw new SocketError('socketpair', koffi.errno())
  }
  return [small.buffer.readInt32LE(0), small.buffer.readInt32LE(4)]
}

/** Who connected. `pid` is 0 when the process cannot be seen from here. */
export interface Peer {
  readonly pid: number
  readonly uid: number
}

/** Throws SocketError. */
export function readPeer(fd: number): Peer {
  small.buffer.writeUInt32LE(12, 16)
  if (call.getsockopt(fd, SOL_SOCKET, SO_PEERCRED, small.address, small.address + 16n) !== 0) {
    throw new SocketError('getsockopt', koffi.errno())
  }
  return { pid: small.buffer.readInt32LE(0), uid: small.buffer.readUInt32LE(4) }
}

/** A descriptor of the process that connected, to be closed by the caller; undefined where the kernel gives none (before 6.5, or it was reaped). */
export function openPeerProcess(fd: number): number | undefined {
  small.buffer.writeUInt32LE(4, 16)
  if (call.getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, small.address, small.address + 16n) !== 0) return undefined
  return small.buffer.readInt32LE(0)
}

/** Only for descriptors that nothing polls any more. */
export function closeDescriptor(fd: number): void {
  call.close(fd)
}

/** What is wanted or was seen of a descriptor. */
export interface Readiness {
  readonly readable: boolean
  readonly writable: boolean
}

/** Wakes `onReady` on the main loop while a descriptor is ready. */
export interface Watch {
  change(interest: Readiness): void
  /** To be called before the descriptor is closed. */
  close(): void
}

/** Watches a descriptor. `failed`: the kernel says that it is in error; read what is left, then close. The end of the peer counts as readable. */
export function watchDescriptor(
  fd: number,
  interest: Readiness,
  onReady: (ready: Readiness & { readonly failed: boolean }) => void,
): Watch {
  type Events = Readiness & { readonly disconnect: boolean }
  // The typings of the library leave the status out, which comes first.
  const woken = (status: number, events: Events): void => {
    const failed = status < 0
    onReady({ readable: failed || events.readable || events.disconnect, writable: !failed && events.writable, failed })
  }
  const callback = woken as unknown as (events: Events) => void
  const handle = koffi.node.poll(fd, { ...interest, disconnect: true }, callback)
  return {
    change: (wanted) => {
      if (wanted.readable || wanted.writable) handle.start({ ...wanted, disconnect: true }, callback)
      else handle.stop()
    },
    close: () => handle.close(),
  }
}
