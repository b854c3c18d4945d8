// SPDX-License-Identifier: Apache-2.0
// Objects of the fake API server with their versions and history, and who listens. Knows no HTTP.

import { randomUUID } from 'node:crypto'

export type Json = Record<string, any>

export interface StoredType {
  readonly kind: string
  readonly group: string
  readonly versions: readonly string[]
  readonly plural: string
  readonly namespaced: boolean
  readonly custom: boolean
}

export interface ObjectRef {
  readonly kind: string
  readonly namespace?: string | undefined
  readonly name: string
}

/** One write: the object after it, and before it. `object` of a delete is the last state under the version of the delete. */
export interface StoredChange {
  readonly kind: string
  readonly version: number
  readonly object: Json
  readonly before: Json | undefined
  readonly deleted: boolean
}

const keyOf = (ref: { namespace?: string | undefined; name: string }): string => `${ref.namespace ?? ''}/${ref.name}`

export class FakeStore {
  readonly #objects = new Map<string, Map<string, Json>>()
  readonly #history: StoredChange[] = []
  readonly #oldest = new Map<string, number>()
  #version = 100
  /** Called at once after each write. */
  onChange: (change: StoredChange) => void = () => undefined

  get version(): number {
    return this.#version
  }

  /** Version of the last change of a kind; 0 when there was none. */
  lastChange(kind: string): number {
    return this.#history.findLast((c) => c.kind === kind)?.version ?? 0
  }

  get(ref: ObjectRef): Json | undefined {
    return this.#objects.get(ref.kind)?.get(keyOf(ref))
  }

  /** All objects of a kind in the order an API server lists them. */
  list(kind: string): Json[] {
    const all = [...(this.#objects.get(kind)?.entries() ?? [])]
    return all.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object)
  }

  /** Creates or replaces. A missing uid is stamped: that of the stored object, else a new one. */
  put(object: Json): Json {
    const { kind, metadata } = object as { kind: string; metadata: { namespace?: string; name: string; uid?: string } }
    const before = this.get({ kind, namespace: metadata.namespace, name: metadata.name })
    this.#version++
    const uid = metadata.uid ?? before?.metadata.uid ?? randomUUID()
    const stored = { ...object, metadata: { ...metadata, uid, resourceVersion: String(this.#version) } }
    const ofKind = this.#objects.get(kind) ?? new Map<string, Json>()
    this.#objects.set(kind, ofKind)
    ofKind.set(keyOf(metadata), stored)
    this.#record({ kind, version: this.#version, object: stored, before, deleted: false })
    return stored
  }

  /** False when there is no such object. */
  delete(ref: ObjectRef): boolean {
    const before = this.get(ref)
    if (before === undefined) return false
    this.#version++
    this.#objects.get(ref.kind)?.delete(keyOf(ref))
    const object = { ...before, metadata: { ...before.metadata, resourceVersion: String(this.#version) } }
    this.#record({ kind: ref.kind, version: this.#version, object, before, deleted: true })
    return true
  }

  /** Forgets the history of a kind: who asks to go on from before now is too late. */
  compact(kind: string): void {
    this.#oldest.set(kind, this.#version)
  }

  /** The changes of a kind after a version; undefined when they are no longer known. */
  since(kind: string, version: number): StoredChange[] | undefined {
    if (version < (this.#oldest.get(kind) ?? 0)) return undefined
    return this.#history.filter((c) => c.kind === kind && c.version > version)
  }

  #record(change: StoredChange): void {
    this.#history.push(change)
    this.onChange(change)
  }
}

/** JSON merge patch (RFC 7386). */
export function mergePatch(target: any, patch: any): any {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const out: Json = typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(out, key)
    else out[key] = mergePatch(out[key], value)
  }
  return out
}

/** JSON patch: test, add, replace, remove. Undefined when a test fails or a path is missing. An absent value equals null. */
export function jsonPatch(
  target: Json,
  operations: readonly { op: string; path: string; value?: any }[],
): Json | undefined {
  const out: Json = structuredClone(target)
  for (const { op, path, value } of operations) {
    const steps = path
      .split('/')
      .slice(1)
      .map((s) => s.replaceAll('~1', '/').replaceAll('~0', '~'))
    const last = steps.pop() ?? ''
    let at: any = out
    for (const step of steps) at = at?.[step]
    if (op === 'test') {
      if (JSON.stringify(at?.[last] ?? null) !== JSON.stringify(value ?? null)) return undefined
      continue
    }
    if (typeof at !== 'object' || at === null) return undefined
    if (op === 'remove') {
      if (!(last in at)) return undefined
      if (Array.isArray(at)) at.splice(Number(last), 1)
      else Reflect.deleteProperty(at, last)
    } else if (op === 'add' && Array.isArray(at)) at.splice(last === '-' ? at.length : Number(last), 0, value)
    else if (op === 'add' || op === 'replace') at[last] = value
    else return undefined
  }
  return out
}

/** True when the object passes a field selector (`a.b=c`, `a.b==c`, `a.b!=c`, joined by commas). */
export function matchesFields(object: Json, selector: string): boolean {
  return selector
    .split(',')
    .filter((term) => term !== '')
    .every((term) => {
      const [, path = '', operator, wanted] = /^([^!=]+)(!=|==?)(.*)$/.exec(term) ?? []
      let value: any = object
      for (const step of path.split('.')) value = value?.[step]
      return (String(value ?? '') === wanted) === (operator !== '!=')
    })
}

/** True when the object passes a label selector (`a=b`, `a!=b`, `a`, `!a`, joined by commas). */
export function matchesLabels(object: Json, selector: string): boolean {
  const labels: Record<string, string> = object.metadata?.labels ?? {}
  return selector
    .split(',')
    .filter((term) => term !== '')
    .every((term) => {
      const [, key = '', operator, wanted] = /^([^!=]+)(!=|==?)(.*)$/.exec(term) ?? []
      if (operator === undefined) return term.startsWith('!') ? !(term.slice(1) in labels) : term in labels
      return (labels[key] === wanted) === (operator !== '!=')
    })
}
