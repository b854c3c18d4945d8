// SPDX-License-Identifier: Apache-2.0
// What the annotation of each pod says as far as we know: what we wrote last, until somebody else writes. Our own writes come back as events, late and
// one by one; they must not be taken for news. Never asks anybody.

import type { Redirection } from './contracts.js'

type Value = Redirection | undefined

interface Entry {
  value: Value
  /** Written by us and not yet seen as an event, oldest first. */
  readonly awaited: Value[]
}

const longest = 32

export class AnnotationLedger {
  readonly #entries = new Map<string, Entry>()

  get(uid: string): Value {
    return this.#entries.get(uid)?.value
  }

  /** We wrote this. */
  write(uid: string, value: Value): void {
    const entry = this.#entry(uid)
    if (entry.value === value) return
    entry.value = value
    entry.awaited.push(value)
    if (entry.awaited.length > longest) entry.awaited.shift()
  }

  /** An event shows the pod with this value; `old` is that of the event before, where there was one. Says whether that is news. */
  observe(uid: string, value: Value, old: { readonly value: Value } | undefined): boolean {
    if (old !== undefined && old.value === value) return false
    const entry = this.#entry(uid)
    const at = entry.awaited.indexOf(value)
    if (at >= 0) {
      entry.awaited.splice(0, at + 1)
      return false
    }
    if (old === undefined && entry.awaited.length > 0) return false // an event from before our write
    const isNews = entry.value !== value
    entry.value = value
    entry.awaited.length = 0
    return isNews
  }

  forget(uid: string): void {
    this.#entries.delete(uid)
  }

  #entry(uid: string): Entry {
    const known = this.#entries.get(uid)
    if (known !== undefined) return known
    const entry: Entry = { value: undefined, awaited: [] }
    this.#entries.set(uid, entry)
    return entry
  }
}
