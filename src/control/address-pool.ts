// SPDX-License-Identifier: Apache-2.0
// One range of addresses to give out, in ascending order and round again. Holds what is in use; knows nothing of who uses it. Pure.

import { InvalidInput } from '../base/errors.js'
import { formatIp, maskPrefix, parseIp, parsePrefix } from '../base/ip.js'

export class AddressPool {
  readonly #bytes: number
  readonly #network: bigint
  /** The last address; it is given out too, the network's own is not. */
  readonly #last: bigint
  readonly #used = new Set<bigint>()
  /** The next one to look at. */
  #next: bigint

  /** `prefix` such as `240.240.0.0/16`. Throws InvalidInput when it is none. */
  constructor(prefix: string) {
    const parsed = parsePrefix(prefix)
    if (parsed === undefined) throw new InvalidInput(`"${prefix}" is not a prefix; write it like 240.240.0.0/16`)
    this.#bytes = parsed.address.length
    this.#network = toNumber(maskPrefix(parsed))
    this.#last = this.#network + (1n << BigInt(this.#bytes * 8 - parsed.length)) - 1n
    this.#next = this.#network + 1n
  }

  /** Takes an address as used. Ignored when it is no address of the range. */
  use(text: string): void {
    const number = this.#parse(text)
    if (number !== undefined) this.#used.add(number)
  }

  /** Gives an address back: of all that are free, the lowest that was given back is the next one given out. Ignored when it is not of the range. */
  free(text: string): void {
    const number = this.#parse(text)
    if (number === undefined || !this.#used.delete(number)) return
    if (number < this.#next) this.#next = number
  }

  /** An address that was free until now; undefined when there is none. */
  take(): string | undefined {
    const size = this.#last - this.#network
    if (BigInt(this.#used.size) >= size) return undefined
    let number = this.#next
    // At least one is free, so this ends.
    while (number > this.#last || this.#used.has(number))
      number = number >= this.#last ? this.#network + 1n : number + 1n
    this.#used.add(number)
    this.#next = number + 1n
    return formatIp(toBytes(number, this.#bytes))
  }

  #parse(text: string): bigint | undefined {
    const bytes = parseIp(text)
    if (bytes?.length !== this.#bytes) return undefined
    const number = toNumber(bytes)
    return number > this.#network && number <= this.#last ? number : undefined
  }
}

function toNumber(bytes: Uint8Array): bigint {
  let number = 0n
  for (const byte of bytes) number = (number << 8n) | BigInt(byte)
  return number
}

function toBytes(number: bigint, length: number): Uint8Array {
  const out = new Uint8Array(length)
  for (let i = length - 1, rest = number; i >= 0; i--, rest >>= 8n) out[i] = Number(rest & 255n)
  return out
}
