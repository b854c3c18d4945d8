// SPDX-License-Identifier: Apache-2.0
// Writes conditions into the status of objects, one object at a time, by server-side apply. For the leader alone. Touches no condition of others,
// and does not wait for what it wrote to come back: the row goes when it does.

import type { Clock } from '../base/clock.js'
import type { ConditionRecord } from '../kube/records.js'
import { resourceTypes } from '../kube/resources.js'
import type { StatusWrite, StatusWrites } from './conditions.js'
import { toList, toObject, toText, type JsonObject, type ObjectApi } from './object-api.js'
import type { WorkOutcome } from './work-queue.js'

export interface ConditionWriterOptions {
  readonly objects: ObjectApi
  readonly writes: StatusWrites
  readonly clock: Clock
}

/** Performs the write under a key of `writes`, as it is now. */
export function createConditionWriter(
  options: ConditionWriterOptions,
): (key: string, signal: AbortSignal) => Promise<WorkOutcome> {
  const { objects, writes, clock } = options
  return async (key, signal) => {
    const write = writes.get(key)
    if (write === undefined) return 'done'
    const { apiVersion, path } = await objects.locate(write, signal)
    const rest = resourceTypes[write.kind].custom ? await readRest(objects, path, { write, signal }) : nothingElse
    if (rest === undefined) return 'done'
    const object = {
      apiVersion,
      kind: write.kind,
      metadata: { name: write.name, namespace: write.namespace, uid: write.uid, ...rest.precondition },
      status: { conditions: [...rest.conditions, ...write.wanted.map((wanted) => toWire(wanted, clock))] },
    }
    const reply = await objects.apply(`${path}/status`, write.manager, object, signal)
    if (reply.kind === 'missing') return 'done'
    return reply.kind === 'conflict' ? 'again' : 'written'
  }
}

/** What has to be said once more so that it stays, and on which state of the object that rests. */
interface Rest {
  readonly conditions: readonly JsonObject[]
  readonly precondition: { readonly resourceVersion?: string }
}

const nothingElse: Rest = { conditions: [], precondition: {} }

/**
 * Undefined when the object is gone or another one. Istio's definitions do not say that conditions are told apart by type: to apply some there is to
 * apply the whole list, so those of others are said once more. Where a definition does say so, they must not be: they would be ours then, too.
 */
async function readRest(
  objects: ObjectApi,
  path: string,
  { write, signal }: { readonly write: StatusWrite; readonly signal: AbortSignal },
): Promise<Rest | undefined> {
  const reply = await objects.get(path, signal)
  if (reply.kind !== 'ok') return undefined
  const metadata = toObject(reply.object['metadata'])
  if (metadata['uid'] !== write.uid) return undefined
  const all = toList(toObject(reply.object['status'])['conditions']).map(toObject)
  const others = all.filter((condition) => !write.types.includes(toText(condition['type'])))
  if (others.length === 0 || !isListOwnedWhole(metadata)) return nothingElse
  return { conditions: others, precondition: { resourceVersion: toText(metadata['resourceVersion']) } }
}

/** Does the server keep one owner for the whole list of conditions? It does not when it keeps one for each of them. */
function isListOwnedWhole(metadata: JsonObject): boolean {
  const owned = toList(metadata['managedFields'])
    .map((entry) => toObject(toObject(toObject(entry)['fieldsV1'])['f:status'])['f:conditions'])
    .filter((fields) => fields !== undefined)
  return owned.length > 0 && !owned.some((fields) => Object.keys(toObject(fields)).some((key) => key.startsWith('k:')))
}

function toWire({ type, status, reason, message, observedGeneration }: ConditionRecord, clock: Clock): JsonObject {
  const lastTransitionTime = `${new Date(clock.now()).toISOString().slice(0, 19)}Z`
  const generation = observedGeneration === 0 ? {} : { observedGeneration }
  return { type, status, reason, message, lastTransitionTime, ...generation }
}
