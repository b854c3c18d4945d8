// SPDX-License-Identifier: Apache-2.0
// The conditions of a status that this program writes itself, so that it can tell whether there is anything to write. For the projections.
// Those of others, and when a condition last changed, are left out: nothing here depends on them.

import type { Part } from './part.js'
import type { ConditionRecord, Kind } from './records.js'
import { resourceTypes } from './resources.js'

/** What a status holds of the kind's own conditions, by type; of a type that is there twice the first. */
export function projectConditions(kind: Kind, status: Part | undefined): readonly ConditionRecord[] {
  const { conditions: types } = resourceTypes[kind]
  const found = status?.parts('conditions').filter((condition) => types.includes(condition.text('type'))) ?? []
  return toConditions(kind, found.map(toCondition))
}

/** The same from conditions that were read otherwise. */
export function toConditions(kind: Kind, found: readonly ConditionRecord[]): readonly ConditionRecord[] {
  if (found.length === 0) return none
  const own = resourceTypes[kind].conditions.flatMap((type) => found.find((condition) => condition.type === type) ?? [])
  return own.length === 0 ? none : Object.freeze(own.map((condition) => Object.freeze(condition)))
}

const none: readonly ConditionRecord[] = Object.freeze([])

function toCondition(condition: Part): ConditionRecord {
  return {
    type: condition.shared('type'),
    status: condition.shared('status'),
    reason: condition.shared('reason'),
    message: condition.text('message'),
    observedGeneration: toGeneration(condition.raw.observedGeneration),
  }
}

/** Istio's definitions let it be a text. */
function toGeneration(value: unknown): number {
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) ? number : 0
}
