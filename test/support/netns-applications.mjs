// SPDX-License-Identifier: Apache-2.0
// Applications of one place on the network, for tests of traffic: listens, calls others, keeps connections open, asks for names. Started inside the place's
// network namespace. One JSON command a line with an `id`, one JSON answer a line with the same. Usage: netns-applications.mjs NAME

import { createSocket } from 'node:dgram'
import { connect, createServer } from 'node:net'
import { performance } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { clearTimeout, setTimeout } from 'node:timers'

const [name] = process.argv.slice(2)
const defaultTimeoutMs = 5000
const kept = new Map()

const toPlain = (ip) => ip.replace(/^::ffff:/, '')

/** Answers each line with where it landed and who sent it, as seen from here. */
function listen({ ports }) {
  const opened = ports.map(
    (port) =>
      new Promise((resolve, reject) => {
        const server = createServer((socket) => {
          const answer = JSON.stringify({ lands: `${name}:${port}`, sourceSeen: toPlain(socket.remoteAddress ?? '') })
          socket.on('data', () => socket.write(`${answer}\n`))
          socket.on('error', () => socket.destroy())
        })
        server.on('error', reject)
        server.listen(port, '::', resolve)
      }),
  )
  return Promise.all(opened).then(() => ({}))
}

/** One line back, or what happened instead. */
function nextLine(socket, timeoutMs) {
  return new Promise((resolve) => {
    let text = ''
    const settle = (outcome) => {
      clearTimeout(timer)
      for (const [event, listener] of Object.entries(listeners)) socket.off(event, listener)
      resolve(outcome)
    }
    const listeners = {
      data: (bytes) => {
        text += bytes.toString('latin1')
        // What a proxy says on its own is no answer of an application.
        const line = /\{.*\}/.exec(text)
        if (line !== null) settle({ answer: JSON.parse(line[0]) })
      },
      error: ({ code }) => settle({ error: code }),
      end: () => settle({ error: 'closed' }),
      close: () => settle({ error: 'closed' }),
    }
    const timer = setTimeout(() => settle({ error: 'timeout' }), timeoutMs)
    for (const [event, listener] of Object.entries(listeners)) socket.on(event, listener)
  })
}

async function call({ dst, port, src, timeoutMs = defaultTimeoutMs, keepAs }) {
  const from = performance.now()
  const socket = connect({ host: dst, port, localAddress: src })
  socket.on('error', () => undefined)
  let connected = false
  socket.once('connect', () => {
    connected = true
    socket.write('ping\n')
  })
  const { answer, error } = await nextLine(socket, timeoutMs)
  if (keepAs !== undefined && answer !== undefined) kept.set(keepAs, socket)
  else socket.destroy()
  const isClosed = connected && ['ECONNRESET', 'EPIPE'].includes(error)
  return {
    connected,
    answered: answer !== undefined,
    ...answer,
    ...(error !== undefined && { error: isClosed ? 'closed' : error }),
    seconds: (performance.now() - from) / 1000,
  }
}

/** Whether data still goes through a connection that was kept, there and back. */
async function carries({ keptAs, timeoutMs = 1000 }) {
  const socket = kept.get(keptAs)
  if (socket === undefined) return { carries: false }
  if (socket.destroyed || socket.readableEnded) return { carries: false }
  socket.write('more\n')
  return { carries: (await nextLine(socket, timeoutMs)).answer !== undefined }
}

function encodeQuestion(text, type) {
  const labels = text.split('.').flatMap((label) => [label.length, ...Buffer.from(label)])
  return Buffer.from([0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...labels, 0, 0, type, 0, 1])
}

function decodeAnswer(bytes, question) {
  const count = bytes.readUInt16BE(6)
  const result = { answered: true, rcode: bytes[3] & 15, answers: count }
  for (let at = question.length, left = count; left > 0; left--) {
    // A name is a pointer here, or labels up to an empty one.
    if ((bytes[at] ?? 0) >= 0xc0) at += 2
    else {
      while (bytes[at] !== 0) at += bytes[at] + 1
      at += 1
    }
    const length = bytes.readUInt16BE(at + 8)
    const value = bytes.subarray(at + 10, at + 10 + length)
    if (length === 4) return { ...result, address: value.join('.') }
    if (length === 16) {
      const host = new URL(`http://[${value.toString('hex').match(/.{4}/g).join(':')}]`).hostname
      return { ...result, address: host.slice(1, -1) }
    }
    at += 10 + length
  }
  return result
}

/** A question over UDP or TCP to a resolver. */
function resolveName({ dst, port = 53, question: text, over, type = 1, timeoutMs = defaultTimeoutMs }) {
  const question = encodeQuestion(text, type)
  return new Promise((resolve) => {
    const settle = (result) => {
      clearTimeout(timer)
      end()
      resolve(result)
    }
    const fail = ({ code }) => settle({ answered: false, error: code })
    const timer = setTimeout(() => settle({ answered: false, error: 'timeout' }), timeoutMs)
    let end
    if (over === 'udp') {
      const socket = createSocket(dst.includes(':') ? 'udp6' : 'udp4')
      end = () => socket.close()
      socket.on('error', fail)
      socket.on('message', (bytes) => settle(decodeAnswer(bytes, question)))
      socket.send(question, port, dst)
      return
    }
    const socket = connect({ host: dst, port })
    end = () => socket.destroy()
    socket.on('error', fail)
    socket.on('close', () => settle({ answered: false, error: 'closed' }))
    socket.write(Buffer.concat([Buffer.from([0, question.length]), question]))
    let got = Buffer.alloc(0)
    socket.on('data', (bytes) => {
      got = Buffer.concat([got, bytes])
      if (got.length > 2 && got.length >= 2 + got.readUInt16BE(0)) settle(decodeAnswer(got.subarray(2), question))
    })
  })
}

const commands = { listen, call, carries, resolveName }

process.stdout.write('{"ready":true}\n')
for await (const line of createInterface({ input: process.stdin })) {
  const { id, do: verb, ...rest } = JSON.parse(line)
  void Promise.resolve()
    .then(() => commands[verb](rest))
    .catch((error) => ({ failed: error.message }))
    .then((answer) => process.stdout.write(`${JSON.stringify({ id, ...answer })}\n`))
}
process.exit(0)
