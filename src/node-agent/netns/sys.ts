// SPDX-License-Identifier: Apache-2.0
// The few system calls that Node does not offer, for the parts that work in namespaces or speak netlink. Calls are synchronous unless named otherwise.
// Every failure is a SystemCallError with the errno's name. Linux on little-endian machines with 64 bits; never decides anything by itself.

import koffi from 'koffi'

/** A call that the kernel refused. `code` is the errno's name (`EPERM`), as in Node's own errors. */
export class SystemCallError extends Error {
  constructor(
    readonly call: string,
    readonly code: string,
  ) {
    super(`${call}: ${code}`)
    this.name = 'SystemCallError'
  }
}

export const cloneNewNet = 0x4000_0000
export const cloneNewMount = 0x0002_0000
export const nsfsMagic = 0x6e73_6673
export const mountFlags = {
  noSuid: 2,
  noDev: 4,
  noExec: 8,
  bind: 0x1000,
  recursive: 0x4000,
  private: 1 << 18,
  slave: 1 << 19,
} as const
export const netlinkRoute = 0
export const netlinkNetfilter = 12

const afNetlink = 16
const sockRaw = 3
const sockCloseOnExec = 0o2000000
const solSocket = 1
const soSendBuffer = 7
const soSendBufferForce = 32
const messageDoNotWait = 0x40
const messageTruncated = 0x20
const nsGetNamespaceType = 0xb703
const closeOnExec = 0o2000000
const pathOnly = 0o10000000

type Sync<A extends unknown[]> = (...args: A) => number
type Async<A extends unknown[]> = {
  async: (...args: [...A, (error: unknown, result: number) => void]) => void
}

const libc = koffi.load(null)
const calls = {
  setns: libc.func('int setns(int fd, int type)') as Sync<[number, number]>,
  unshare: libc.func('int unshare(int flags)') as Sync<[number]>,
  socket: libc.func('int socket(int domain, int type, int protocol)') as Sync<[number, number, number]>,
  send: libc.func('intptr_t send(int fd, const void *bytes, size_t length, int flags)') as Sync<
    [number, Uint8Array, number, number]
  > &
    Async<[number, Uint8Array, number, number]>,
  recv: libc.func('intptr_t recv(int fd, void *bytes, size_t length, int flags)') as Sync<
    [number, Uint8Array, number, number]
  >,
  close: libc.func('int close(int fd)') as Sync<[number]> & Async<[number]>,
  setsockopt: libc.func('int setsockopt(int fd, int level, int name, const void *value, uint32_t length)') as Sync<
    [number, number, number, Uint8Array, number]
  >,
  mount: libc.func(
    'int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data)',
  ) as Sync<[string | null, string, string | null, number, null]>,
  fstatfs: libc.func('int fstatfs(int fd, void *answer)') as Sync<[number, Uint8Array]>,
  open: libc.func('int open(const char *path, int flags, ...)') as Sync<[string, number]>,
  ioctl: libc.func('int ioctl(int fd, unsigned long request, ...)') as Sync<[number, number]>,
}

const errnoNames = new Map(Object.entries(koffi.os.errno).map(([name, number]) => [number, name]))

/** `EPERM` for 1. Netlink's answers carry these numbers, negated. */
export function formatErrno(number: number): string {
  return errnoNames.get(number) ?? `errno ${number}`
}

function lastErrno(): string {
  return formatErrno(koffi.errno())
}

function must(call: string, result: number): number {
  if (result < 0) throw new SystemCallError(call, lastErrno())
  return result
}

/** Moves the calling thread into a network namespace. */
export function setNetns(fd: number): void {
  must('setns', calls.setns(fd, cloneNewNet))
}

/** Gives the calling thread namespaces of its own (`cloneNewNet`, `cloneNewMount`). */
export function unshare(flags: number): void {
  must('unshare', calls.unshare(flags))
}

/** As mount(2); null where there is no source or type. */
export function mount(source: string | null, target: string, type: string | null, flags: number): void {
  must(`mount ${target}`, calls.mount(source, target, type, flags, null))
}

/** A descriptor to read from, closed on exec; not among what Node believes to be a thread's files. */
export function openFile(path: string): number {
  return must(`open ${path}`, calls.open(path, closeOnExec))
}

/** A descriptor that only stands for the file: opening it does nothing to it, be it a device or a pipe. */
export function openPath(path: string): number {
  return must(`open ${path}`, calls.open(path, closeOnExec | pathOnly))
}

export function closeFd(fd: number): void {
  must('close', calls.close(fd))
}

/** On a thread of libuv's pool; `whenClosed` is called on this one. What fails is nobody's to mend: the descriptor is gone in any case. */
export function closeFdOffThread(fd: number, whenClosed: () => void): void {
  calls.close.async(fd, whenClosed)
}

/** Which kind of filesystem the descriptor is on: f_type of fstatfs(2). */
export function filesystemMagic(fd: number): number {
  const answer = Buffer.alloc(256)
  must('fstatfs', calls.fstatfs(fd, answer))
  return answer.readUInt32LE(0)
}

/** The CLONE_NEW* number of the namespace behind a descriptor; undefined when it is no namespace. */
export function namespaceType(fd: number): number | undefined {
  const type = calls.ioctl(fd, nsGetNamespaceType)
  return type < 0 ? undefined : type
}

/** A netlink socket in the thread's namespace (`netlinkRoute`, `netlinkNetfilter`); it stays there wherever the thread goes. */
export function openNetlink(protocol: number): number {
  return must('socket', calls.socket(afNetlink, sockRaw | sockCloseOnExec, protocol))
}

/** Raises the send buffer to `bytes`, beyond the system's limit where the process may. */
export function setSendBuffer(fd: number, bytes: number): void {
  const value = Buffer.alloc(4)
  value.writeUInt32LE(bytes)
  if (calls.setsockopt(fd, solSocket, soSendBufferForce, value, 4) === 0) return
  must('setsockopt SO_SNDBUF', calls.setsockopt(fd, solSocket, soSendBuffer, value, 4))
}

/** One datagram, on this thread. */
export function send(fd: number, bytes: Uint8Array): void {
  must('send', calls.send(fd, bytes, bytes.length, 0))
}

/** One datagram, on a thread of libuv's pool: the caller's thread does other work meanwhile. The socket must stay open and the bytes unchanged until then. */
export function sendAsync(fd: number, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    calls.send.async(fd, bytes, bytes.length, 0, (error, sent) => {
      // The errno must be asked for before anything else happens on this thread.
      if (error instanceof Error) reject(error)
      else if (sent < 0) reject(new SystemCallError('send', lastErrno()))
      else resolve()
    })
  })
}

/** One datagram into `into` without waiting: its length, or undefined when there is none. EMSGSIZE when it is longer than `into`. */
export function receiveNow(fd: number, into: Uint8Array): number | undefined {
  const length = calls.recv(fd, into, into.length, messageDoNotWait | messageTruncated)
  if (length > into.length) throw new SystemCallError('recv', 'EMSGSIZE')
  if (length >= 0) return length
  const code = lastErrno()
  if (code === 'EAGAIN' || code === 'EWOULDBLOCK') return undefined
  throw new SystemCallError('recv', code)
}
