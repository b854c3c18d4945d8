// SPDX-License-Identifier: Apache-2.0
// A delta stream on node:http2: gRPC framing, paced writing, trailers. One gRPC message may be large; its bytes go down in pieces, as the client takes them.
// Queues nothing beyond the message that is being written.

import { constants } from 'node:http2'
import type { ServerHttp2Stream } from 'node:http2'
import type { Clock, Timer } from '../base/clock.js'
import { FrameParser, formatStatusMessage } from '../wire/grpc-frames.js'
import type { Asker } from './access.js'
import type { Session } from './session.js'
import type { Stream } from './session-host.js'

/** Large writes copy and hog; small ones cost calls. */
const pieceBytes = 256 * 1024

export interface StreamOptions {
  readonly clock: Clock
  readonly peer: string
  readonly asker: Asker
  readonly maxRequestBytes: number
  readonly sendTimeoutMs: number
  onReceived(): void
  onSent(): void
  /** The client took nothing for `sendTimeoutMs`; the stream was reset. */
  onStuck(): void
  /** The stream is gone; the gRPC status it ended with. */
  onClosed(status: number): void
}

const CANCELLED = 1

export class Http2Stream implements Stream {
  readonly peer: string
  readonly asker: Asker
  readonly #stream: ServerHttp2Stream
  readonly #options: StreamOptions
  readonly #parser: FrameParser
  #session: Session | undefined
  /** What is left of the message that is being written. */
  #parts: Uint8Array[] = []
  #blocked = false
  #blockedAtMs = 0
  #timer: Timer | undefined
  #status = CANCELLED
  #message = ''

  constructor(stream: ServerHttp2Stream, options: StreamOptions) {
    this.#stream = stream
    this.#options = options
    this.peer = options.peer
    this.asker = options.asker
    this.#parser = new FrameParser(options.maxRequestBytes)
  }

  /** Answers the call's headers at once, since clients wait for them, and starts to read. */
  start(session: Session): void {
    this.#session = session
    const stream = this.#stream
    stream.on('error', () => undefined) // 'close' follows and says all there is to say.
    stream.on('close', () => {
      this.#timer?.cancel()
      this.#parts = []
      session.closed()
      this.#options.onClosed(this.#status)
    })
    stream.on('wantTrailers', () => this.#sendTrailers())
    stream.on('drain', () => this.#drained())
    stream.respond(
      { [constants.HTTP2_HEADER_STATUS]: 200, [constants.HTTP2_HEADER_CONTENT_TYPE]: 'application/grpc' },
      { waitForTrailers: true },
    )
    stream.on('data', (chunk: Buffer) => this.#read(chunk))
    stream.on('end', () => session.inputEnded())
  }

  /** Everything written so far has left this process, or waits for the client alone. */
  get flushed(): boolean {
    return this.#stream.destroyed || (this.#parts.length === 0 && this.#stream.writableLength === 0)
  }

  #read(chunk: Buffer): void {
    const session = this.#session
    if (session === undefined || session.ended) return
    try {
      for (const message of this.#parser.push(chunk)) {
        this.#options.onReceived()
        session.receive(message)
      }
    } catch (error) {
      session.fail(error)
    }
  }

  write(parts: readonly Uint8Array[]): boolean {
    this.#options.onSent()
    const [only] = parts
    if (parts.length === 1 && only !== undefined && only.length <= pieceBytes) {
      if (this.#stream.write(only)) return true
    } else {
      this.#parts = [...parts]
      if (this.#writePieces()) return true
    }
    this.#block()
    return false
  }

  /** True when all is written and more may be. */
  #writePieces(): boolean {
    let more = true
    while (more) {
      const [part, ...rest] = this.#parts
      if (part === undefined) return true
      const piece = part.subarray(0, pieceBytes)
      this.#parts = piece.length === part.length ? rest : [part.subarray(pieceBytes), ...rest]
      more = this.#stream.write(piece)
    }
    return false
  }

  #drained(): void {
    if (this.#stream.destroyed) return
    this.#blockedAtMs = this.#options.clock.monotonic()
    if (!this.#writePieces()) return
    this.#blocked = false
    this.#session?.drained()
  }

  #block(): void {
    this.#blocked = true
    this.#blockedAtMs = this.#options.clock.monotonic()
    this.#timer ??= this.#watch(this.#options.sendTimeoutMs)
  }

  /** One timer a stream, however many pieces it writes: it looks how long the present block has lasted. */
  #watch(delayMs: number): Timer {
    return this.#options.clock.after(delayMs, () => {
      this.#timer = undefined
      if (!this.#blocked || this.#stream.destroyed) return
      const left = this.#options.sendTimeoutMs - (this.#options.clock.monotonic() - this.#blockedAtMs)
      if (left > 0) this.#timer = this.#watch(left)
      else this.#giveUp()
    })
  }

  #giveUp(): void {
    this.#parts = []
    this.#session?.closed()
    this.#stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.#options.onStuck()
  }

  setReading(on: boolean): void {
    if (on) this.#stream.resume()
    else this.#stream.pause()
  }

  end(status: number, message: string): void {
    this.#status = status
    this.#message = message
    if (!this.#stream.destroyed) this.#stream.end()
  }

  #sendTrailers(): void {
    const stream = this.#stream
    if (stream.destroyed || stream.closed) return
    const text = this.#message === '' ? {} : { 'grpc-message': formatStatusMessage(this.#message) }
    stream.sendTrailers({ 'grpc-status': String(this.#status), ...text })
    closeAnswered(stream)
  }
}

/** After a complete answer: a client that has not closed its side need not do so, and holds no place among the streams of its connection. */
export function closeAnswered(stream: ServerHttp2Stream): void {
  setImmediate(() => {
    if (!stream.destroyed && !stream.closed) stream.close(constants.NGHTTP2_NO_ERROR)
  })
}
