// SPDX-License-Identifier: Apache-2.0
// One copy of what many rows repeat: namespaces, node names, label sets, port lists. For the projections alone.
// Bounded: a table that has grown past its bound is forgotten, which costs memory for a while and never an answer.

import type { Labels, NamedPort } from './records.js'

const bound = 65_536

/** A table from a canonical text to the one frozen value that stands for it. */
class Interned<V> {
  readonly #known = new Map<string, V>()

  get(key: string): V | undefined {
    return this.#known.get(key)
  }

  add(key: string, value: V): V {
    if (this.#known.size >= bound) this.#known.clear()
    this.#known.set(key, value)
    return value
  }
}

const strings = new Interned<string>()
const labelSets = new Interned<Labels>()
const owners = new Interned<{ readonly kind: string; readonly name: string }>()
const portLists = new Interned<readonly NamedPort[]>()

/** The one copy of a text that many objects carry. Not for names and uids: each is used once. */
export function internString(text: string): string {
  return strings.get(text) ?? strings.add(text, text)
}

/** The one frozen copy of a label set, keys in ascending order. `flat` is key, value, key, value; of a repeated key the last value counts. */
export function internLabels(flat: readonly string[]): Labels {
  const asWritten = flat.join('\0')
  const known = labelSets.get(asWritten)
  if (known !== undefined) return known
  const pairs: [string, string][] = []
  for (let i = 0; i + 1 < flat.length; i += 2)
    pairs.push([internString(flat[i] ?? ''), internString(flat[i + 1] ?? '')])
  // Last one wins: fromEntries keeps the last of equal keys, and a stable sort keeps their order.
  pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0))
  const canonical = pairs.flat().join('\0')
  const same = labelSets.get(canonical)
  const set = same ?? labelSets.add(canonical, Object.freeze(Object.fromEntries(pairs)))
  if (asWritten !== canonical) labelSets.add(asWritten, set)
  return set
}

/** The one frozen copy of an owner. */
export function internOwner(kind: string, name: string): { readonly kind: string; readonly name: string } {
  const key = `${kind}\0${name}`
  return owners.get(key) ?? owners.add(key, Object.freeze({ kind: internString(kind), name }))
}

/** The one frozen copy of a list of container ports. */
export function internPorts(ports: readonly NamedPort[]): readonly NamedPort[] {
  if (ports.length === 0) return noPorts
  let key = ''
  for (const p of ports) key += `${p.name}\0${p.port}\0`
  return portLists.get(key) ?? portLists.add(key, Object.freeze(ports.map((p) => Object.freeze({ ...p }))))
}

const noPorts: readonly NamedPort[] = Object.freeze([])

/** A frozen list of texts; the empty list is one object. */
export function freezeTexts(texts: readonly string[]): readonly string[] {
  return texts.length === 0 ? noTexts : Object.freeze(texts)
}

const noTexts: readonly string[] = Object.freeze([])
