// SPDX-License-Identifier: Apache-2.0
// The length-prefixed frames that carry gRPC messages inside an HTTP/2 stream: made, and found again in whatever pieces arrive.
// For the server of the delta stream. Knows nothing of what the messages say; holds no more than what was really received, twice at most.

import { ProtocolError } from '../base/errors.js'
import { shortenText } from '../base/short-text.js'

const RESOURCE_EXHAUSTED = 8
const UNIMPLEMENTED = 12
const INTERNAL = 13
const prefixSize = 5
const smallest = 4096
/** Headers of a client have an end; so has what is said in them. */
const longestStatusMessage = 500

/** The prefix of an uncompressed message of this many bytes. */
export function frameHeader(messageLength: number): Uint8Array {
  const header = Buffer.alloc(prefixSize)
  header.writeUInt32BE(messageLength, 1)
  return header
}

/** A message, given in parts, as one frame. */
export function frameMessage(...parts: readonly Uint8Array[]): Uint8Array {
  let length = 0
  for (const part of parts) length += part.length
  const frame = Buffer.allocUnsafeSlow(prefixSize + length)
  frame[0] = 0
  frame.writeUInt32BE(length, 1)
  let at = prefixSize
  for (const part of parts) {
    frame.set(part, at)
    at += part.length
  }
  return frame
}

/** Any text as the value of `grpc-message`: shortened, and percent-encoded. */
export function formatStatusMessage(text: string): string {
  return encodeURIComponent(shortenText(text, longestStatusMessage))
}

/** Finds the messages in the chunks of one stream. After an error it is of no more use. */
export class FrameParser {
  readonly #maxBytes: number
  readonly #prefix = Buffer.alloc(prefixSize)
  #prefixFilled = 0
  /** Length of the message that is being received; -1 while its prefix is. */
  #length = -1
  #message: Buffer = Buffer.alloc(0)
  #filled = 0

  /** `maxBytes` is the longest message that is taken. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** True when the stream must not end here: a message is incomplete. */
  get isInside(): boolean {
    return this.#prefixFilled > 0
  }

  /**
   * The messages that this chunk completes, in order; views of the chunk where they lie in it whole. Throws ProtocolError: RESOURCE_EXHAUSTED as soon as
   * a prefix announces too long a message, UNIMPLEMENTED for a compressed one, INTERNAL for a prefix that is none.
   */
  push(chunk: Uint8Array): Uint8Array[] {
    const messages: Uint8Array[] = []
    let at = 0
    while (at < chunk.length) {
      // By far the most frequent case, a short message in one chunk, without moving a byte.
      if (this.#prefixFilled === 0 && chunk[at] === 0 && chunk.length - at >= prefixSize) {
        const length = readLength(chunk, at + 1)
        const end = at + prefixSize + length
        if (end <= chunk.length && length <= this.#maxBytes) {
          messages.push(chunk.subarray(at + prefixSize, end))
          at = end
          continue
        }
      }
      if (this.#length < 0) {
        const take = Math.min(prefixSize - this.#prefixFilled, chunk.length - at)
        this.#prefix.set(chunk.subarray(at, at + take), this.#prefixFilled)
        this.#prefixFilled += take
        at += take
        if (this.#prefixFilled < prefixSize) break
        this.#length = this.#readPrefix()
        this.#filled = 0
      }
      const missing = this.#length - this.#filled
      const take = Math.min(missing, chunk.length - at)
      const part = chunk.subarray(at, at + take)
      at += take
      if (take === missing) {
        messages.push(this.#filled === 0 ? part : this.#complete(part))
        this.#length = -1
        this.#prefixFilled = 0
      } else {
        this.#append(part)
      }
    }
    return messages
  }

  #readPrefix(): number {
    const flag = this.#prefix[0]
    if (flag === 1) throw new ProtocolError('The message is compressed; send it without grpc-encoding', UNIMPLEMENTED)
    if (flag !== 0) throw new ProtocolError(`A message begins with flag ${flag ?? 0}; is this gRPC?`, INTERNAL)
    const length = this.#prefix.readUInt32BE(1)
    if (length > this.#maxBytes) {
      throw new ProtocolError(
        `The message has ${length} bytes, more than the ${this.#maxBytes} that are taken`,
        RESOURCE_EXHAUSTED,
      )
    }
    return length
  }

  #complete(last: Uint8Array): Uint8Array {
    this.#append(last)
    const message = this.#message.subarray(0, this.#length)
    this.#message = Buffer.alloc(0)
    return message
  }

  /** Room doubles, so that every byte is moved about once and memory follows what was received, not what was announced. */
  #append(part: Uint8Array): void {
    const need = this.#filled + part.length
    if (this.#message.length < need) {
      const room = Math.min(this.#length, Math.max(need, this.#message.length * 2, smallest))
      const grown = Buffer.allocUnsafeSlow(room)
      grown.set(this.#message.subarray(0, this.#filled))
      this.#message = grown
    }
    this.#message.set(part, this.#filled)
    this.#filled = need
  }
}

function readLength(bytes: Uint8Array, at: number): number {
  const high = (((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)) * 0x10000
  return high + (((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0))
}
