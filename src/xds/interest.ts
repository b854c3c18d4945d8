// SPDX-License-Identifier: Apache-2.0
// Whether a resource concerns a client: by what it asked for, by its node, by what it holds already. Pure questions for subscriptions.

import { keysOf } from './key-index.js'
import type { HeldVersions } from './reply.js'
import type { Resource } from './source.js'
import type { Topic } from './topic.js'

/** True when one of the names is a key of the resource itself. */
export function isAskedFor(resource: Resource, names: ReadonlySet<string>, topic: Topic): boolean {
  return names.size > 0 && keysOf(resource, topic.keys).some((key) => names.has(key))
}

/** True for what lives on the client's node, and for members of what was asked for. */
export function isReached(resource: Resource, names: ReadonlySet<string>, node: string, topic: Topic): boolean {
  if (node !== '' && resource.node === node) return true
  return resource.parents.some((name) => {
    if (names.has(name)) return true
    const parent = topic.get(name)
    return parent !== undefined && isAskedFor(parent, names, topic)
  })
}

/**
 * Of `from`: what a client that comes back with these versions does not hold, or wants whatever it holds; members go along with what brings them.
 * Afterwards `versions` knows all these names as asked for.
 */
export function selectLacking(
  from: Iterable<Resource>,
  wanted: ReadonlyMap<string, Resource>,
  versions: HeldVersions,
  topic: Topic,
): Resource[] {
  const lacking: Resource[] = []
  const bringing: Resource[] = []
  const isHeld = ({ name, version }: Resource): boolean =>
    versions.check(name, version) === 'current' && version !== '' && !wanted.has(name)
  for (const resource of from) {
    const held = versions.size > 0 && isHeld(resource)
    if (held || resource.entry === undefined) continue
    lacking.push(resource)
    if (resource.bringsMembers && versions.size > 0) bringing.push(resource)
  }
  const brought = new Set<Resource>()
  for (const { name } of bringing) {
    for (const member of topic.source?.members(name) ?? []) {
      if (member.entry !== undefined && isHeld(member)) brought.add(member)
    }
  }
  return brought.size === 0 ? lacking : [...lacking, ...brought]
}
