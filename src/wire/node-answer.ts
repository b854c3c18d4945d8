// SPDX-License-Identifier: Apache-2.0
// What the agent of a node says to "what is this?" at its local socket, for both ends: GET /whatis?q=QUESTION, one JSON object.
// 200: found. 404: nobody has it. 400: not a question. 503 and 504: not known here, and the control plane is away or silent.

import type { WhatIsAnswer } from './inspect.js'

/** Where the agent listens for people unless it is told otherwise. */
export const DEFAULT_NODE_SOCKET = '/var/run/istio-cni/node.sock'
export const WHATIS_PATH = '/whatis'

export interface NodeAnswer {
  /** `found` is empty when nobody has it. Reasons (`why`) are the control plane's to know and are empty here. */
  readonly answer: WhatIsAnswer
  /** True: the control plane is away, and this is what it said before it went. */
  readonly stale: boolean
  /** Whole seconds since the control plane was lost, which is since when nobody confirms the answer; 0 when it is there. */
  readonly ageSeconds: number
  /** When it was lost, ISO 8601; empty when it is there. */
  readonly awaySince: string
  /** False: a part of the question was not answered in time, so that more may have it. */
  readonly complete: boolean
}

/** With every status but 200 and 404. */
export interface NodeRefusal {
  readonly error: string
}
