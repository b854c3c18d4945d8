// SPDX-License-Identifier: Apache-2.0
// A program: the draining client where there is no C compiler. Same flags and same lines as load/drain.c, more CPU of its own.

import { connect, type ClientHttp2Stream } from 'node:http2'
import { FrameParser, frameMessage } from '../../src/wire/grpc-frames.js'
import { Reader } from '../../src/wire/reader.js'
import { deltaPath, encodeRequest } from './requests.js'
import { formatPodIp } from './mesh.js'
import { selectQuantile } from './programs.js'

const flags = new Map<string, number>()
for (let i = 2; i + 1 < process.argv.length; i += 2) flags.set(process.argv[i] ?? '', Number(process.argv[i + 1]))
const port = flags.get('-p') ?? 0
const clients = flags.get('-n') ?? 1
const requests = flags.get('-o') ?? 0
const pods = flags.get('-N') ?? 10_000

const say = (line: object): boolean => process.stdout.write(`${JSON.stringify(line)}\n`)
const now = (): number => Number(process.hrtime.bigint())
const arrivals: number[][] = []
const latencies: number[] = []
let asked = 0
let connected = 0
let beganAt = 0

function ask(stream: ClientHttp2Stream, index: number): void {
  const pod = (Math.imul(asked++, 2654435761) + index * 40503) >>> 0
  stream.write(frameMessage(encodeRequest({ subscribe: [`/${formatPodIp(pod % pods)}`] })))
}

/** The nonce of a response, and whether it says anything. */
function readResponse(message: Uint8Array): { nonce: string; says: boolean } {
  const reader = new Reader(message, 'response')
  let nonce = ''
  let says = false
  while (reader.next()) {
    if (reader.field === 5) nonce = reader.string()
    else {
      if (reader.field === 2 || reader.field === 6) says = true
      reader.skip()
    }
  }
  return { nonce, says }
}

function takeAnswer(stream: ClientHttp2Stream, index: number, askedAt: number): void {
  if (latencies.length < requests) latencies.push((now() - askedAt) / 1000)
  if (latencies.length < requests) ask(stream, index)
  else if (latencies.length === requests) {
    const seconds = (now() - beganAt) / 1e9
    const p50Us = selectQuantile(latencies, 0.5)
    say({ ev: 'answers', n: requests, seconds, p50Us, p99Us: selectQuantile(latencies, 0.99) })
    latencies.push(0)
  }
}

function takePush(k: number): void {
  const times = (arrivals[k] ??= [])
  times.push(now())
  if (times.length === clients)
    say({ ev: 'message', k, first: times[0], p50: times[clients >> 1], last: times[clients - 1] })
}

function run(index: number): void {
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 2 << 20 } })
  session.on('connect', () => {
    session.setLocalWindowSize(5 << 20)
    if (connected++ === 0) beganAt = now()
    if (connected === clients) say({ ev: 'connected', n: clients })
  })
  const stream = session.request({
    ':method': 'POST',
    ':path': deltaPath,
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  const parser = new FrameParser(1 << 30)
  let messages = 0
  let askedAt = now()
  stream.on('data', (chunk: Buffer) => {
    for (const message of parser.push(chunk)) {
      const { nonce, says } = readResponse(message)
      stream.write(frameMessage(encodeRequest({ nonce })))
      if (requests === 0) takePush(messages++)
      else if (says) {
        takeAnswer(stream, index, askedAt)
        askedAt = now()
      }
    }
  })
  const give = requests > 0 ? { subscribe: ['*'], unsubscribe: ['*'] } : {}
  stream.write(frameMessage(encodeRequest({ node: index, ...give })))
  if (requests > 0) ask(stream, index)
}

for (let i = 0; i < clients; i++) run(i)
