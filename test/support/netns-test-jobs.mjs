// SPDX-License-Identifier: Apache-2.0
// The program of a worker thread in tests: the product's loop from dist/ with jobs that show what becomes of threads, errors and namespaces.

import { readlinkSync } from 'node:fs'
import { setImmediate } from 'node:timers'
import { setTimeout as delay } from 'node:timers/promises'
import { parentPort, threadId } from 'node:worker_threads'
import { Fatal, InvalidInput, Retryable } from '../../dist/base/errors.js'
import { serveJobs } from '../../dist/node-agent/netns/job-loop.js'
import { NetlinkSocket } from '../../dist/node-agent/netns/netlink-socket.js'
import { SystemCallError, setNetns } from '../../dist/node-agent/netns/sys.js'
import { readSysctl, writeSysctl } from '../../dist/node-agent/netns/sysctl.js'

const errors = { Fatal, InvalidInput, Retryable, TypeError }
const whereAmI = () => readlinkSync('/proc/thread-self/ns/net')
let opened = 0
let open = () => undefined
const gate = new Promise((resolve) => (open = resolve))

serveJobs(parentPort, {
  echo: (_place, args) => args,
  thread: () => threadId,
  'slow thread': (_place, ms) => delay(ms, threadId),
  'throw error': (_place, { name, message }) => {
    throw new errors[name](message)
  },
  'refused call': () => setNetns(-1),
  die: () => process.exit(3),
  'die of an error': () => {
    setImmediate(() => {
      throw new Error('nobody catches this')
    })
    return new Promise(() => undefined)
  },
  // Ends when as many jobs as are said are at work in this thread at once.
  gather: async (_place, count) => {
    opened += 1
    if (opened === count) open()
    await gate
    return opened
  },
  wait: (_place, ms) => delay(ms),
  never: () => new Promise(() => undefined),
  log: (place, fields) => {
    place.log.child({ of: 'a job' }).warn(fields, 'something was seen')
  },
  home: whereAmI,
  inside: (place) => [whereAmI(), place.inside(whereAmI), whereAmI()],
  nested: (place) => place.inside(() => place.inside(whereAmI)),
  'nested in another': (place, fd) => place.inside(() => place.insideOf(fd, whereAmI)),
  'throw inside': (place) => {
    let caught = ''
    try {
      place.inside(() => {
        throw new InvalidInput('thrown inside')
      })
    } catch (error) {
      caught = error.message
    }
    return [caught, whereAmI()]
  },
  'await inside': (place) => place.inside(async () => 1),
  'own mounts': (place) => {
    const before = readlinkSync('/proc/thread-self/ns/mnt')
    place.ownMounts()
    place.ownMounts()
    return readlinkSync('/proc/thread-self/ns/mnt') !== before
  },
  sysctl: (place, { name, value }) => {
    const before = writeSysctl(place, name, value)
    return { before, after: readSysctl(place, name) }
  },
  // Asks route netlink for the interface lo of the namespace, off-thread; meanwhile the thread is at home.
  'ask off-thread': async (place) => {
    const socket = place.inside(() => new NetlinkSocket(0))
    const request = Buffer.alloc(32)
    request.writeUInt32LE(32, 0)
    request.writeUInt16LE(18, 4)
    request.writeUInt16LE(0x301, 6)
    try {
      await socket.sendAsync(request)
      return Math.max(...socket.receive().map((datagram) => datagram.length)) > 100
    } finally {
      socket.close()
    }
  },
  'send on a closed socket': async () => {
    const socket = new NetlinkSocket(0)
    socket.close()
    try {
      await socket.sendAsync(Buffer.alloc(16))
    } catch (error) {
      return [error instanceof SystemCallError, error.message]
    }
    return []
  },
})
