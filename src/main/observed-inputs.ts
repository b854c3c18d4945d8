// SPDX-License-Identifier: Apache-2.0
// The inputs as a feed sees them, with an ear on what really changes. For serve.ts, which debounces and counts. Adds nothing to the rows.

import type { Source } from '../collection/types.js'
import { kinds, type Inputs } from '../kube/inputs.js'
import type { Kind } from '../kube/records.js'

/** `rows` objects of a kind were written, or deleted. Not called for a row that is equal to the one before. */
export type OnInput = (kind: Kind, verb: 'write' | 'delete', rows: number) => void

/** The same inputs; every change made through what is returned is also told to `onInput`, after it was made. */
export function observeInputs(inputs: Inputs, onInput: OnInput): Inputs {
  const observed: Partial<Record<Kind, unknown>> = {}
  for (const kind of kinds) observed[kind] = observe(kind, inputs[kind], onInput)
  return observed as Inputs
}

function observe(kind: Kind, source: Source<unknown>, onInput: OnInput): Source<unknown> {
  return {
    name: source.name,
    get size() {
      return source.size
    },
    get: (key) => source.get(key),
    keys: () => source.keys(),
    values: () => source.values(),
    index: (name, terms) => source.index(name, terms),
    set(key, row) {
      const before = source.get(key)
      source.set(key, row)
      if (source.get(key) !== before) onInput(kind, 'write', 1)
    },
    delete(key) {
      const existed = source.get(key) !== undefined
      source.delete(key)
      if (existed) onInput(kind, 'delete', 1)
    },
    replace(rows) {
      // What a fresh list changes is known to the source alone; that it came counts as a change.
      const isEmpty = rows.size === 0 && source.size === 0
      source.replace(rows)
      if (!isEmpty) onInput(kind, 'write', rows.size)
    },
  }
}
