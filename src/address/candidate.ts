// SPDX-License-Identifier: Apache-2.0
// A service that an object would publish if no other object of its namespace claims the host name. Made by services.ts and service-entries.ts,
// judged by hostnames.ts.

import type { Labels } from '../kube/records.js'
import type { ServiceMessage } from '../wire/messages.js'
import type { MemberPort, PortSource } from './ports.js'

export interface Candidate {
  readonly cluster: string
  readonly namespace: string
  readonly hostname: string
  readonly source: PortSource
  /** Name of the object. */
  readonly object: string
  /** Seconds since the epoch: of several, the oldest stays. */
  readonly created: number
  /** Undefined when it selects nobody. */
  readonly selector: Labels | undefined
  readonly ports: readonly MemberPort[]
  /** `namespace/name` of the waypoint that its traffic goes through; undefined when none is bound. */
  readonly waypoint: string | undefined
  /** As it will be published, whether canonical left open (false). */
  readonly message: ServiceMessage
}

/** Unique among all candidates. */
export function formatCandidateKey({ cluster, source, namespace, object, hostname }: Candidate): string {
  return source === 'Service'
    ? `${cluster}/Service/${namespace}/${object}`
    : `${cluster}/ServiceEntry/${namespace}/${object}/${hostname}`
}
