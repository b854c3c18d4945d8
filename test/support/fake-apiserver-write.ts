// SPDX-License-Identifier: Apache-2.0
// Single objects of the fake API server: get, create, update, patch (merge, JSON, apply), delete, and the status subresource.

import type { ServerResponse } from 'node:http'
import { sendJson, sendStatus } from './fake-apiserver-answer.js'
import type { FakeApiServer } from './fake-apiserver.js'
import type { Route } from './fake-apiserver-route.js'
import { jsonPatch, mergePatch, type Json, type ObjectRef } from './fake-apiserver-store.js'

export interface SeenWrite extends ObjectRef {
  readonly verb: string
  readonly subresource: string | undefined
  readonly contentType: string
  readonly fieldManager: string
  readonly body: any
}

interface Payload {
  readonly body: string
  readonly contentType: string
}

export function answerWrite(server: FakeApiServer, route: Route, payload: Payload, response: ServerResponse): void {
  const { verb, type, namespace, subresource } = route
  const body: any = payload.body === '' ? undefined : JSON.parse(payload.body)
  const name: string = route.name ?? body?.metadata?.name ?? ''
  const ref: ObjectRef = { kind: type.kind, namespace, name }
  if (verb !== 'get') {
    const { contentType } = payload
    const fieldManager = route.query.get('fieldManager') ?? ''
    server.writes.push({ ...ref, verb, subresource, contentType, fieldManager, body })
  }
  const stored = server.store.get(ref)
  if (verb === 'create') {
    create(server, ref, { body, stored }, response)
    return
  }
  const applied = verb === 'patch' && payload.contentType.includes('apply-patch')
  // Apply makes what is not there, but never a status alone.
  if (stored === undefined && (!applied || subresource !== undefined)) {
    sendStatus(response, 404, 'NotFound', `${type.plural} "${name}" not found`)
    return
  }
  const before = stored ?? { metadata: { name, namespace } }
  switch (verb) {
    case 'get':
      sendJson(response, 200, before)
      return
    case 'delete':
      server.store.delete(ref)
      sendJson(response, 200, { kind: 'Status', status: 'Success' })
      return
    default: {
      const after = applied
        ? apply(server, before, { patch: body, route })
        : payload.contentType.includes('json-patch')
          ? jsonPatch(before, body)
          : verb === 'update'
            ? body
            : mergePatch(before, body)
      if (after === undefined) {
        sendStatus(response, 422, 'Invalid', 'the patch does not apply')
        return
      }
      const { resourceVersion: asked, uid } = body?.metadata ?? {}
      const isOther = uid !== undefined && stored !== undefined && uid !== before.metadata.uid
      if (isOther || (asked !== undefined && asked !== before.metadata.resourceVersion)) {
        sendStatus(response, 409, 'Conflict', 'the object has been modified')
        return
      }
      sendJson(response, 200, server.store.put(restrict(before, { ...after, kind: type.kind }, subresource)))
    }
  }
}

function create(
  server: FakeApiServer,
  ref: ObjectRef,
  given: { body: any; stored: Json | undefined },
  response: ServerResponse,
): void {
  const answer = server.createAnswers.get(ref.kind)
  if (answer !== undefined) {
    sendJson(response, 201, answer(given.body))
    return
  }
  if (given.stored !== undefined) {
    sendStatus(response, 409, 'AlreadyExists', `"${ref.name}" already exists`)
    return
  }
  const metadata = { ...given.body.metadata, ...(ref.namespace === undefined ? {} : { namespace: ref.namespace }) }
  sendJson(response, 201, server.store.put({ ...given.body, kind: ref.kind, metadata }))
}

/** A write to the status changes nothing else; a write to the rest leaves the status. */
function restrict(before: Json, after: Json, subresource: string | undefined): Json {
  if (subresource === 'status') {
    // A pod's status may be written together with its labels and annotations; a definition's status may not.
    const { labels, annotations } = after.metadata
    const metadata = after.kind === 'Pod' ? { ...before.metadata, labels, annotations } : before.metadata
    return { ...before, metadata, status: after.status }
  }
  return before.status === undefined ? after : { ...after, status: before.status }
}

/** What each field manager applied, by object identity and manager. */
const appliedConditions = new Map<string, readonly string[]>()

/**
 * Server-side apply, as far as conditions go: those of this manager that are left out are taken away, others stay. Where the list is one field, it is
 * replaced as a whole.
 */
function apply(server: FakeApiServer, before: Json, asked: { patch: Json; route: Route }): Json {
  const { patch, route } = asked
  const manager = route.query.get('fieldManager') ?? ''
  const key = `${before.metadata.uid}/${manager}`
  const given: Json[] = patch.status?.conditions ?? []
  const types = given.map((c) => c.type as string)
  const owned = [...(appliedConditions.get(key) ?? []), ...types]
  appliedConditions.set(key, types)
  const kept: Json[] = (before.status?.conditions ?? []).filter((c: Json) => !owned.includes(c.type))
  const merged = mergePatch(before, patch)
  if (patch.status === undefined) return merged
  if (server.wholeConditions.has(route.type.kind)) {
    const fieldsV1 = { 'f:status': { 'f:conditions': {} } }
    before.metadata.managedFields = [{ manager, operation: 'Apply', subresource: 'status', fieldsV1 }]
    return { ...merged, status: { ...merged.status, conditions: given } }
  }
  return { ...merged, status: { ...merged.status, conditions: [...kept, ...given] } }
}
