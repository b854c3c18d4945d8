// SPDX-License-Identifier: Apache-2.0
// What the answers need of whoever built the resources: its reasons. address knows them; debug only repeats them.

export interface Explanation {
  /** Sentences, one a line, in the order in which a person wants them. */
  readonly why: readonly string[]
}

export interface Explainer {
  /** Why the resource of this name looks the way it does; undefined when nothing is recorded. Must be cheap: it is asked per answer, not per commit. */
  explain(name: string): Explanation | undefined
}
