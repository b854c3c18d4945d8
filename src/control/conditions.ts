// SPDX-License-Identifier: Apache-2.0
// What a status should say and does not: rows of the graph, there only while there is something to write. For the derivations beside this file,
// which say what is wanted, and for condition-writer.ts, which writes it. Nothing that is served depends on them.

import type { Collection, DeriveOptions } from '../collection/types.js'
import { isSameRecord } from '../kube/inputs.js'
import type { ConditionRecord, Conditioned, Kind, Meta } from '../kube/records.js'

/** Who a condition is written as: each reporter is a field manager of its own. */
export type FieldManager =
  | 'istio-ambient-service'
  | 'istio-ambient-workloadentry'
  | 'istio-ambient-ztunnel-policy'
  | 'istio-ambient-waypoint-policy'

export interface StatusWrite {
  readonly kind: Kind
  readonly namespace: string
  readonly name: string
  readonly uid: string
  readonly manager: FieldManager
  /** The types that the manager answers for on this kind. */
  readonly types: readonly string[]
  /** Those of these types that stand there. */
  readonly present: readonly ConditionRecord[]
  /** Those that should. */
  readonly wanted: readonly ConditionRecord[]
}

/** Unique among all writes. */
export function formatStatusWriteKey({ kind, namespace, name, manager }: StatusWrite): string {
  return `${kind}/${namespace}/${name}/${manager}`
}

/** What an object is, for `toStatusWrite`. */
export interface Reporter {
  readonly kind: Kind
  readonly manager: FieldManager
  /** In ascending order. */
  readonly types: readonly string[]
}

/** Undefined when the object says already what it should. `wanted` in any order, without what must not be there. */
export function toStatusWrite(
  record: Meta & Conditioned,
  { kind, manager, types }: Reporter,
  wanted: readonly (ConditionRecord | undefined)[],
): StatusWrite | undefined {
  const present = record.conditions.filter(({ type }) => types.includes(type))
  const inOrder = types.flatMap((type) => wanted.find((condition) => condition?.type === type) ?? [])
  if (isSameRecord(present, inOrder)) return undefined
  const { namespace, name, uid } = record
  return { kind, namespace, name, uid, manager, types, present, wanted: inOrder }
}

export const statusWriteOptions: DeriveOptions<StatusWrite> = { key: formatStatusWriteKey, equal: isSameRecord }

export type StatusWrites = Collection<StatusWrite>

/** A condition that is not about a certain generation. */
export function toCondition(type: string, status: 'True' | 'False', reason: string, message: string): ConditionRecord {
  return { type, status, reason, message, observedGeneration: 0 }
}
