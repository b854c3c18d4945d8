// SPDX-License-Identifier: Apache-2.0
// What is wrong with the manifests, told once each: a warning when it appears or becomes another, a line when it is mended. For the file source.

import type { Logger } from '../base/log.js'

/** Something to tell a person about a file or an object in it. */
export interface Problem {
  /** What the problem is about: two problems of one file with the same subject are told as one. */
  readonly subject: string
  readonly message: string
  /** Where the problem is; not part of its identity, for lines move with every edit above them. */
  readonly line: number | undefined
  /** The object concerned, such as `Pod shop/cart`; undefined when it is the file or something nameless. */
  readonly object: string | undefined
  readonly reason: string
  /** File and line of the definition that counts instead. */
  readonly first?: string
}

export class ProblemLedger {
  readonly #told = new Map<string, ReadonlyMap<string, string>>()

  constructor(
    readonly log: Logger,
    readonly formatFile: (path: string) => string,
  ) {}

  /** These are the problems of a file now, all of them. */
  report(file: string, problems: readonly Problem[]): void {
    const told = this.#told.get(file)
    if (told === undefined && problems.length === 0) return
    const now = new Map<string, string>()
    for (const problem of problems) {
      const text = `${problem.message}\0${problem.reason}`
      if (now.has(problem.subject)) continue
      now.set(problem.subject, text)
      if (told?.get(problem.subject) !== text) this.#warn(file, problem)
    }
    for (const subject of told?.keys() ?? []) {
      if (!now.has(subject))
        this.log.info({ file: this.formatFile(file), object: subject }, 'a reported problem is gone')
    }
    if (now.size === 0) this.#told.delete(file)
    else this.#told.set(file, now)
  }

  #warn(file: string, problem: Problem): void {
    const { line, object, reason, first, message } = problem
    this.log.warn(
      {
        file: this.formatFile(file),
        ...(line !== undefined && { line }),
        ...(object !== undefined && { object }),
        reason,
        ...(first !== undefined && { first }),
      },
      message,
    )
  }
}
