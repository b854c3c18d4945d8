// SPDX-License-Identifier: Apache-2.0
// How a run ends when it did not end well: the exit code says which kind, the message says it to the person.

/** 1: nobody has it. 2: not a question, or wrong usage. 3: could not ask. */
export type FailureCode = 1 | 2 | 3

export class CtlFailure extends Error {
  constructor(
    readonly exitCode: FailureCode,
    message: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = new.target.name
  }
}
