// SPDX-License-Identifier: Apache-2.0
// A set that is usually tiny: nothing, one thing, a short exact-sized array, or a real Set. For the engine's records of who reads what,
// of which there are several a row; a Set apiece would cost more than the rows. Never holds arrays, Sets or undefined as members.

/** None, one, a few, many. Treat as a value: every change returns what to keep. */
export type Few<T> = undefined | T | readonly T[] | Set<T>

const mostInArray = 16
const fewestInSet = 8

/** `few` with `item`; adding twice is adding once. */
export function addTo<T extends object | string>(few: Few<T>, item: T): Few<T> {
  if (few === undefined) return item
  if (few instanceof Set) return few.add(item)
  if (isShort(few)) {
    if (few.includes(item)) return few
    // concat gives an array without room to grow; push would leave place for sixteen more.
    return few.length < mostInArray ? few.concat(item) : new Set(few).add(item)
  }
  return few === item ? few : [few, item]
}

/** `few` without `item`. */
export function removeFrom<T extends object | string>(few: Few<T>, item: T): Few<T> {
  if (few === undefined || few === item) return undefined
  if (few instanceof Set) {
    few.delete(item)
    return few.size < fewestInSet ? toShort([...few]) : few
  }
  return isShort(few) && few.includes(item) ? toShort(few.filter((other) => other !== item)) : few
}

/** Calls `visit` for each member, in no particular order. `visit` must not change the same set. */
export function eachOf<T extends object | string>(few: Few<T>, visit: (item: T) => void): void {
  if (few === undefined) return
  if (few instanceof Set || isShort(few)) for (const item of few) visit(item)
  else visit(few)
}

function isShort<T>(few: T | readonly T[]): few is readonly T[] {
  return Array.isArray(few)
}

function toShort<T>(items: readonly T[]): Few<T> {
  return items.length > 1 ? items : items[0]
}
