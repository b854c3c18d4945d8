// SPDX-License-Identifier: Apache-2.0
// Sends packets between namespaces and says where they land, with sockets that Node cannot make: socket marks, foreign source addresses, the destination
// that a redirected connection had. A program of its own, for it goes from namespace to namespace; one JSON command a line, one JSON answer a line.
// Usage: packet-probe.mjs '{"pod": "/var/run/netns/x", ...}'

import { openSync } from 'node:fs'
import { constants } from 'node:os'
import { performance } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import koffi from 'koffi'

const libc = koffi.load(null)
const call = {
  setns: libc.func('int setns(int, int)'),
  socket: libc.func('int socket(int, int, int)'),
  setsockopt: libc.func('int setsockopt(int, int, int, const void *, uint32_t)'),
  getsockopt: libc.func('int getsockopt(int, int, int, _Out_ void *, _Inout_ uint32_t *)'),
  bind: libc.func('int bind(int, const void *, uint32_t)'),
  listen: libc.func('int listen(int, int)'),
  connect: libc.func('int connect(int, const void *, uint32_t)'),
  accept: libc.func('int accept4(int, _Out_ void *, _Inout_ uint32_t *, int)'),
  sendto: libc.func('intptr_t sendto(int, const void *, size_t, int, const void *, uint32_t)'),
  recvfrom: libc.func('intptr_t recvfrom(int, _Out_ void *, size_t, int, _Out_ void *, _Inout_ uint32_t *)'),
  poll: libc.func('int poll(_Inout_ void *, unsigned long, int)'),
  close: libc.func('int close(int)'),
}
const nonBlocking = 0o4000 | 0o2000000
const types = { tcp: 1 | nonBlocking, udp: 2 | nonBlocking }
const solSocket = 1
const readable = 1
const writable = 4
const packetTimeoutMs = 1000
const errnoNames = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))
const errnoName = (number) => errnoNames.get(number) ?? `errno ${number}`
const int = (value) => {
  const out = Buffer.alloc(4)
  out.writeUInt32LE(value)
  return out
}

function toBytes(ip) {
  if (!ip.includes(':')) return Buffer.from(ip.split('.').map(Number))
  const [head, tail = ''] = ip.split('::')
  const groups = (text) => (text === '' ? [] : text.split(':').map((g) => Number.parseInt(g, 16)))
  const [a, b] = [groups(head), groups(tail)]
  const all = ip.includes('::') ? [...a, ...Array(8 - a.length - b.length).fill(0), ...b] : a
  return Buffer.from(all.flatMap((g) => [g >> 8, g & 255]))
}

function toText(bytes) {
  if (bytes.length === 4) return bytes.join('.')
  if (bytes.subarray(0, 12).equals(Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255])))
    return toText(bytes.subarray(12))
  return new URL(`http://[${bytes.toString('hex').match(/.{4}/g).join(':')}]`).hostname.slice(1, -1)
}

function toSockaddr(ip, port) {
  const bytes = toBytes(ip)
  const out = Buffer.alloc(bytes.length === 4 ? 16 : 28)
  out.writeUInt16LE(bytes.length === 4 ? 2 : 10, 0)
  out.writeUInt16BE(port, 2)
  bytes.copy(out, bytes.length === 4 ? 4 : 8)
  return out
}

function fromSockaddr(out) {
  const ip = toText(out.readUInt16LE(0) === 2 ? out.subarray(4, 8) : out.subarray(8, 24))
  return { ip, port: out.readUInt16BE(2) }
}

const paths = JSON.parse(process.argv[2])
const namespaces = Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, openSync(path, 'r')]))

function must(what, result) {
  if (result < 0) throw new Error(`${what}: ${errnoName(koffi.errno())}`)
  return result
}

/** A socket in the namespace; the process stays there, for it makes no other kind of thing. */
function makeSocket(where, proto, { ip, port, mark, transparent }) {
  must('setns', call.setns(namespaces[where], 0x40000000))
  const isV4 = !ip.includes(':')
  const fd = must('socket', call.socket(isV4 ? 2 : 10, types[proto], 0))
  call.setsockopt(fd, solSocket, 2, int(1), 4)
  if (mark) must('mark', call.setsockopt(fd, solSocket, 36, int(mark), 4))
  if (transparent) {
    must('transparent', call.setsockopt(fd, 0, 19, int(1), 4))
    if (!isV4) must('transparent', call.setsockopt(fd, 41, 75, int(1), 4))
  }
  if (port !== undefined) must(`bind ${ip} ${port}`, call.bind(fd, toSockaddr(ip, port), isV4 ? 16 : 28))
  return fd
}

const listeners = new Map()
function listen(where, proto, options) {
  const fd = makeSocket(where, proto, options)
  if (proto === 'tcp') must('listen', call.listen(fd, 64))
  listeners.set(fd, { where, proto, port: options.port, isProxy: options.mark !== undefined })
}
for (const port of [15001, 15006, 15008]) listen('pod', 'tcp', { ip: '::', port, mark: 0x539, transparent: true })
for (const proto of ['tcp', 'udp']) {
  for (const ip of ['127.0.0.1', '::1']) listen('pod', proto, { ip, port: 15053, mark: 0x539 })
  for (const port of [8080, 53]) listen('pod', proto, { ip: '::', port })
}
for (const where of Object.keys(namespaces).filter((name) => name !== 'pod')) {
  for (const port of [80, 53, 8080, 15008]) listen(where, 'tcp', { ip: '::', port })
  for (const port of [53, 9000]) listen(where, 'udp', { ip: '::', port })
}

/** The destination that the connection had before it was redirected. */
function originalDestination(fd, isV4) {
  const out = Buffer.alloc(28)
  if (call.getsockopt(fd, isV4 ? 0 : 41, 80, out, [isV4 ? 16 : 28]) < 0) return undefined
  const { ip, port } = fromSockaddr(out)
  return isV4 ? `${ip}:${port}` : `[${ip}]:${port}`
}

/** Waits until one of the descriptors can be read, or written where asked; gives back those. */
function wait(wanted, timeoutMs) {
  const entries = Buffer.alloc(8 * wanted.length)
  for (const [i, { fd, events }] of wanted.entries()) {
    entries.writeInt32LE(fd, 8 * i)
    entries.writeInt16LE(events, 8 * i + 4)
  }
  call.poll(entries, wanted.length, Math.max(0, Math.ceil(timeoutMs)))
  return wanted.filter((_, i) => entries.readInt16LE(8 * i + 6) !== 0)
}

function receive(fd) {
  const bytes = Buffer.alloc(512)
  const from = Buffer.alloc(28)
  const length = Number(call.recvfrom(fd, bytes, bytes.length, 0, from, [28]))
  if (length < 0) return { error: errnoName(koffi.errno()) }
  return { text: bytes.toString('utf8', 0, length), from }
}

const write = (fd, text) => Number(call.sendto(fd, Buffer.from(text), text.length, 0x4000, null, 0))

function acceptAt(fd) {
  const from = Buffer.alloc(28)
  const accepted = call.accept(fd, from, [28], nonBlocking)
  if (accepted < 0) return undefined
  const { where, port, isProxy } = listeners.get(fd)
  const { ip } = fromSockaddr(from)
  const originalDst = isProxy ? originalDestination(accepted, !ip.includes(':')) : undefined
  return { fd: accepted, lands: `${where}:${port}`, sourceSeen: ip, originalDst }
}

/** One packet or connection: where it got to and whether an answer came back. `keep` leaves both ends open. */
function sendOne({ from, proto, dst, port, src, mark, transparent }, keep = false) {
  const options = { mark: mark === undefined ? undefined : Number(mark), transparent }
  const bound = src === undefined ? { ip: dst } : { ip: src, port: 0 }
  const client = makeSocket(from, proto, { ...options, ...bound })
  const result = { lands: null, answered: false }
  const until = performance.now() + packetTimeoutMs
  const target = toSockaddr(dst, port)
  let server
  const started =
    proto === 'tcp'
      ? call.connect(client, target, target.length)
      : Number(call.sendto(client, Buffer.from('ping'), 4, 0, target, target.length))
  let error = started < 0 ? errnoName(koffi.errno()) : undefined
  if (error === 'EINPROGRESS') error = undefined
  let isConnected = proto === 'udp'
  while (error === undefined && !result.answered) {
    const left = until - performance.now()
    if (left <= 0) error = 'timeout'
    else {
      const wanted = [...listeners.keys()].map((fd) => ({ fd, events: readable }))
      const ready = wait([...wanted, { fd: client, events: isConnected ? readable : writable }], left)
      for (const { fd } of ready) {
        const listener = listeners.get(fd)
        if (listener?.proto === 'tcp') {
          server = acceptAt(fd)
          if (server === undefined) continue
          Object.assign(result, { lands: server.lands, sourceSeen: server.sourceSeen })
          if (server.originalDst !== undefined) result.originalDst = server.originalDst
          write(server.fd, 'pong')
        } else if (listener !== undefined) {
          const got = receive(fd)
          if (got.text === undefined) continue
          Object.assign(result, {
            lands: `${listener.where}:${listener.port}/udp`,
            sourceSeen: fromSockaddr(got.from).ip,
          })
          call.sendto(fd, Buffer.from('pong'), 4, 0, got.from, got.from.readUInt16LE(0) === 2 ? 16 : 28)
        } else if (!isConnected) {
          const out = Buffer.alloc(4)
          call.getsockopt(client, solSocket, 4, out, [4])
          if (out.readInt32LE(0) !== 0) error = errnoName(out.readInt32LE(0))
          isConnected = true
        } else {
          const got = receive(client)
          if (got.error !== undefined) error = got.error
          else result.answered = true
        }
      }
    }
  }
  if (error !== undefined && (result.lands === null || proto === 'tcp')) result.error = error
  if (keep && result.answered) return { result, client, server: server.fd }
  call.close(client)
  if (server !== undefined) call.close(server.fd)
  return { result }
}

/** Whether data goes through an open connection, there and back. */
function exchange({ client, server }) {
  for (const [from, to] of [
    [client, server],
    [server, client],
  ]) {
    if (write(from, 'more') < 0) return errnoName(koffi.errno())
    const until = performance.now() + packetTimeoutMs
    for (;;) {
      const ready = wait(
        [
          { fd: to, events: readable },
          { fd: from, events: readable },
        ],
        until - performance.now(),
      )
      if (ready.length === 0) return 'timeout'
      // What comes back at the sender can only be a refusal.
      const got = receive(ready[0].fd)
      if (got.error !== undefined) return got.error
      if (got.text === '') return 'end'
      if (ready[0].fd === to) break
    }
  }
  return 'carries'
}

const open = new Map()
const commands = {
  send: ({ packet }) => sendOne(packet).result,
  open: ({ name, packet }) => {
    const { result, client, server } = sendOne(packet, true)
    if (client === undefined) return result
    open.set(name, { client, server })
    return { ...result, state: exchange(open.get(name)) }
  },
  exchange: ({ name }) => ({ state: exchange(open.get(name)) }),
}

process.stdout.write('{"ready":true}\n')
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  let answer
  try {
    answer = commands[command.do](command)
  } catch (error) {
    answer = { failed: error.message }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
