// SPDX-License-Identifier: Apache-2.0
// Large JSON pages as a row of parts, so that the mesh is never held as one text and serving goes on in between. Layout equal to JSON.stringify's.

/** A member of the page: an array whose elements are made one by one. */
export interface JsonArray {
  readonly name: string
  readonly elements: Iterable<unknown>
}

const partLength = 64 * 1024

/** An object of arrays. `indent` as JSON.stringify takes it; a pretty page ends with a newline. */
export async function* formatArrays(arrays: readonly JsonArray[], isPretty: boolean): AsyncGenerator<string, void> {
  const [newline, deep, space, indent] = isPretty ? ['\n  ', '\n    ', ' ', 2] : ['', '', '', undefined]
  let part = '{'
  for (const [i, array] of arrays.entries()) {
    part += `${i === 0 ? '' : ','}${newline}${JSON.stringify(array.name)}:${space}[`
    let isEmpty = true
    for (const element of array.elements) {
      const text = JSON.stringify(element, undefined, indent)
      part += `${isEmpty ? '' : ','}${deep}${isPretty ? text.replaceAll('\n', deep) : text}`
      isEmpty = false
      if (part.length < partLength) continue
      yield part
      part = ''
      await new Promise((resolve) => setImmediate(resolve))
    }
    part += isEmpty ? ']' : `${newline}]`
  }
  yield `${part}${isPretty && arrays.length > 0 ? '\n' : ''}}${isPretty ? '\n' : ''}`
}
