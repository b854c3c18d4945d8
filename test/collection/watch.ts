// SPDX-License-Identifier: Apache-2.0
// For the tests of the engine: a graph whose transforms count their runs and whose commits return what each listener was told.

import { createGraph } from '../../src/collection/graph.js'
import type { Change, Collection, Index, Read, Source } from '../../src/collection/types.js'

export interface Row {
  readonly key: string
  readonly value: string
}

export const row = (key: string, value: string): Row => ({ key, value })
export const rowOptions = {
  key: (out: Row): string => out.key,
  equal: (a: Row, b: Row): boolean => a.key === b.key && a.value === b.value,
}

/** "key: old -> now" of each change, sorted; `-` is no row. */
export function formatChanges(changes: readonly Change<Row>[]): string[] {
  const text = (value: Row | undefined): string => value?.value ?? '-'
  return changes.map(({ key, old, now }) => `${key}: ${text(old)} -> ${text(now)}`).sort()
}

export function createWatch() {
  const failures: string[] = []
  const graph = createGraph({
    onFailure: ({ collection, key, error }) =>
      failures.push(`${collection} ${key}: ${error instanceof Error ? error.message : String(error)}`),
  })
  let runs: string[] = []
  let told: Record<string, string[]> = {}
  const watched = <C extends Collection<Row>>(collection: C): C => {
    graph.onCommit(collection, (changes) => (told[collection.name] = formatChanges(changes)))
    return collection
  }
  const deriveMany = (
    name: string,
    from: Collection<Row>,
    run: (input: Row, read: Read) => readonly Row[],
  ): Collection<Row> => {
    const counted = (input: Row, read: Read): readonly Row[] => {
      runs.push(`${name} ${input.key}`)
      return run(input, read)
    }
    return watched(graph.derive<Row, Row>(name, from, counted, rowOptions))
  }
  /** A table of one row for each input row, under the same key; `run` gives its value, undefined = no row. */
  const derive = (
    name: string,
    from: Collection<Row>,
    run: (input: Row, read: Read) => string | undefined,
  ): Collection<Row> =>
    deriveMany(name, from, (input, read) => {
      const value = run(input, read)
      return value === undefined ? [] : [row(input.key, value)]
    })
  /** Commits; the runs in order, the changes told by table, and what commit returned. */
  const commit = () => {
    runs = []
    told = {}
    const changed = graph.commit()
    return { changed, runs, told }
  }
  return {
    graph,
    failures,
    source: (name: string): Source<Row> => watched(graph.source<Row>(name, rowOptions.equal)),
    derive,
    deriveMany,
    watched,
    byValue: (of: Collection<Row>): Index<Row> => of.index('value', (out) => [out.value]),
    commit,
  }
}

export const joined = (rows: readonly Row[]): string =>
  rows
    .map((each) => each.key)
    .sort()
    .join('+')

export const nothing = { changed: false, runs: [], told: {} }
