// SPDX-License-Identifier: Apache-2.0
// What the answers need of whoever built the resources: its reasons. address knows them; debug only repeats them.

export interface Explanation {
  /** Sentences, one a line, in the order in which a person wants them. */
  readonly why: readonly string[]
}

export interface PolicyExplanation extends Explanation {
  readonly namespace: string
  readonly name: string
  readonly action: string
  readonly scope: string
  /** Proxies are told of it. */
  readonly isSent: boolean
}

export interface Explainer {
  /** Why the resource of this name looks the way it does; undefined when nothing is recorded. Must be cheap: it is asked per answer, not per commit. */
  explain(name: string): Explanation | undefined
  /** The same for a policy, `namespace/name`, also for one that no proxy is told of; undefined when there is none. */
  explainPolicy?(name: string): PolicyExplanation | undefined
}
