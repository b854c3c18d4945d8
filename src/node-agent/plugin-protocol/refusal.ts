// SPDX-License-Identifier: Apache-2.0
// An error as CNI says it: a code that the runtime may act on, a message for people, details. Printed on stdout, with exit code 1.

import { InvalidInput } from '../../base/errors.js'
import type { PluginAnswer } from './framing.js'

export const refusalCodes = {
  /** The version is unknown, or does not know the command. */
  version: 1,
  /** A variable is missing or malformed. */
  environment: 4,
  /** The configuration cannot be read. */
  decoding: 6,
  /** The configuration says what it may not. */
  config: 7,
  /** Everything of our own. */
  own: 999,
} as const

/** A call that is answered with an error. */
export class CniRefusal extends InvalidInput {
  constructor(
    readonly cniCode: number,
    message: string,
    readonly details?: string,
  ) {
    super(message)
  }
}

/** The error as the plugin prints it. */
export function formatRefusal(refusal: CniRefusal): PluginAnswer {
  const details = refusal.details === undefined ? {} : { details: refusal.details }
  const text = JSON.stringify({ code: refusal.cniCode, msg: refusal.message, ...details })
  return { exitCode: 1, stdout: Buffer.from(`${text}\n`) }
}
