// SPDX-License-Identifier: Apache-2.0
// From a message to the published row: encoded once, hashed once, and nothing kept that the bytes hold already except what look-ups need.

import { encodeAuthorizationEntry, type AuthorizationMessage } from '../wire/authorization-encoder.js'
import { encodeServiceEntry, encodeWorkloadEntry } from '../wire/entry.js'
import { HealthPolicy, type ServiceMessage, type WorkloadMessage } from '../wire/messages.js'
import type { AddressRange, Resource } from '../xds/source.js'
import { formatAlias, formatRangeAlias } from './names.js'

const noTexts: readonly string[] = Object.freeze([])
const noRanges: readonly AddressRange[] = Object.freeze([])

/** `parents`: the keys of the message's `services`, when the caller has them as a list that many workloads share. */
export function toWorkloadResource(workload: WorkloadMessage, parents?: readonly string[]): Resource {
  const { name, version, entry } = encodeWorkloadEntry(workload)
  return {
    name,
    version,
    entry,
    aliases:
      workload.addresses.length === 0
        ? noTexts
        : workload.addresses.map((address) => formatAlias(workload.network, address)),
    parents: parents ?? (workload.services.size === 0 ? noTexts : [...workload.services.keys()]),
    node: workload.node,
    ranges: noRanges,
    bringsMembers: false,
    needs: workload.authorizationPolicies,
  }
}

export function toServiceResource(service: ServiceMessage): Resource {
  const { name, version, entry } = encodeServiceEntry(service)
  const ranges = service.addresses.flatMap(({ network, address, length }) =>
    length === undefined ? [] : [{ network, address, length }],
  )
  return {
    name,
    version,
    entry,
    aliases: service.addresses.map(formatRangeAlias),
    parents: noTexts,
    node: '',
    ranges: ranges.length === 0 ? noRanges : ranges,
    bringsMembers: service.loadBalancing?.healthPolicy === HealthPolicy.ALLOW_ALL,
    needs: noTexts,
  }
}

/** Policies have no versions: whoever comes back is told all of them again. */
export function toPolicyResource(policy: AuthorizationMessage): Resource {
  return {
    name: `${policy.namespace}/${policy.name}`,
    version: '',
    entry: encodeAuthorizationEntry(policy),
    aliases: noTexts,
    parents: noTexts,
    node: '',
    ranges: noRanges,
    bringsMembers: false,
    needs: noTexts,
  }
}

/** Everything else in a resource follows from its bytes. */
export function isSameResource(a: Resource, b: Resource): boolean {
  if (a.version !== b.version || a.entry === undefined || b.entry === undefined) return false
  return Buffer.compare(a.entry, b.entry) === 0
}
