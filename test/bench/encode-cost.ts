// SPDX-License-Identifier: Apache-2.0
// What it costs to write one workload's bytes, in this process: the product's encoder beside proto-loader's, on the same workload.

import { encodeWorkloadAddress } from '../../src/wire/address-encoder.js'
import { decodeAddress } from '../../src/wire/address-decoder.js'
import { loadProtos } from '../../src/wire/protos.js'
import { selectMedian } from './programs.js'

/** Nanoseconds a call, middle of several rounds that alternate. */
export function measureEncoding(bytes: Uint8Array, message: object): { addressdNs: number; plainNs: number } {
  const decoded = decodeAddress(bytes)
  if (decoded.kind !== 'workload') throw new Error('this is no workload')
  const { workload } = decoded
  const { address } = loadProtos().messages
  const mine: number[] = []
  const plain: number[] = []
  for (let round = 0; round < 9; round++) {
    mine.push(time(() => encodeWorkloadAddress(workload)))
    plain.push(time(() => address.encode(message)))
  }
  return { addressdNs: selectMedian(mine), plainNs: selectMedian(plain) }
}

function time(encode: () => Uint8Array): number {
  const calls = 20_000
  const beganAt = process.hrtime.bigint()
  let length = 0
  for (let i = 0; i < calls; i++) length += encode().length
  if (length === 0) throw new Error('nothing was written')
  return Number(process.hrtime.bigint() - beganAt) / calls
}
