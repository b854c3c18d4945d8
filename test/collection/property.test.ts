// SPDX-License-Identifier: Apache-2.0
// The spine of the engine: whatever the graph and whatever the events, what commits leave behind equals a graph built fresh from the final rows.
// SPINE_EVENTS sets how many events (20,000 by default), SPINE_SEED where the random numbers start.

import { describe, test } from '@jest/globals'
import { deepStrictEqual, notDeepStrictEqual, ok, strictEqual } from 'node:assert'
import fc from 'fast-check'
import { createGraph } from '../../src/collection/graph.js'
import type { Change, Collection, Graph, Index, Read, Setting, Source } from '../../src/collection/types.js'
import { row, rowOptions, type Row } from './watch.js'

const events = Number(process.env['SPINE_EVENTS'] ?? 20_000)
const seed = Number(process.env['SPINE_SEED'] ?? 20260101)
const eventsPerRun = 60

/** One more table on top of those before it. `of`, `by` and `to` choose among the tables made so far, modulo their number. */
interface Step {
  readonly kind: 'copy' | 'join by key' | 'join by term' | 'many' | 'rekey' | 'filter' | 'distinct' | 'union'
  readonly of: number
  readonly by: number
  readonly to: number
}

type Event =
  | { readonly kind: 'set'; readonly source: number; readonly key: string; readonly value: string }
  | { readonly kind: 'delete'; readonly source: number; readonly key: string }
  | { readonly kind: 'replace'; readonly source: number; readonly rows: readonly (readonly [string, string])[] }
  | { readonly kind: 'setting'; readonly value: string }
  | { readonly kind: 'commit' }

interface Built {
  readonly graph: Graph & { footprint(): object }
  readonly sources: readonly Source<Row>[]
  readonly tables: readonly Collection<Row>[]
  readonly indexes: readonly Index<Row>[]
  readonly domain: Setting<string>
}

const keys = ['a', 'b', 'c', 'd', 'e']
const sourceCount = 3

function build(steps: readonly Step[], onFailure?: (key: string) => void): Built {
  const graph = createGraph({ onFailure: ({ collection, key }) => onFailure?.(`${collection} ${key}`) })
  const domain = graph.setting('domain', '0')
  const sources: Source<Row>[] = []
  const tables: Collection<Row>[] = []
  const indexes: Index<Row>[] = []
  const add = (table: Collection<Row>): void => {
    tables.push(table)
    // Terms that may be equal, absent, and that move with the value; and what a value refers to.
    indexes.push(table.index('letters', (each) => each.value.split('').slice(0, 2)))
  }
  for (let each = 0; each < sourceCount; each++) {
    const source = graph.source<Row>(`source ${each}`, rowOptions.equal)
    sources.push(source)
    add(source)
  }
  steps.forEach((step, place) => {
    const of = tables[step.of % tables.length]!
    const by = tables[step.by % tables.length]!
    const to = indexes[step.to % indexes.length]!
    add(toTable(graph, `${place} ${step.kind}`, { step, of, by, to, domain }))
  })
  return { graph, sources, tables, indexes, domain }
}

function toTable(
  graph: Graph,
  name: string,
  given: {
    readonly step: Step
    readonly of: Collection<Row>
    readonly by: Collection<Row>
    readonly to: Index<Row>
    readonly domain: Setting<string>
  },
): Collection<Row> {
  const { step, of, by, to, domain } = given
  const derive = (run: (input: Row, read: Read) => readonly Row[] | Row | undefined): Collection<Row> =>
    graph.derive<Row, Row>(name, of, run, rowOptions)
  switch (step.kind) {
    case 'copy':
      return derive((input, read) => row(input.key, input.value + read.setting(domain)))
    case 'join by key':
      // Which key is read depends on the value, and a second read on what the first found.
      return derive((input, read) => {
        const found = read.one(by, input.value.slice(0, 1))
        const next = found === undefined ? undefined : read.one(of === by ? by : of, found.value.slice(0, 1))
        return row(input.key, shorten(`${found?.value ?? '-'}${next?.value ?? '_'}`))
      })
    case 'join by term':
      return derive((input, read) => {
        const found = [...read.many(to, input.value.slice(-1)), ...read.many(to, input.key)]
        return row(
          input.key,
          shorten(
            found
              .map((each) => each.key + each.value)
              .sort()
              .join(''),
          ),
        )
      })
    case 'many':
      return derive((input) => [...new Set(input.value)].map((letter) => row(letter, input.value)))
    case 'rekey':
      return derive((input) => row(input.value.slice(0, 1), input.key))
    case 'filter':
      return derive((input, read) => (read.one(by, input.key) === undefined ? undefined : input))
    case 'distinct':
      return graph.distinct(name, of, (input) =>
        input.value === '' ? undefined : ([input.value.slice(0, 1), row(input.value.slice(0, 1), 'ab')] as const),
      )
    case 'union':
      return graph.union(name, of, by)
  }
}

/** Long values fold so that they stay small and still come back to the same text. */
function shorten(value: string): string {
  if (value.length <= 4) return value
  let sum = 0
  for (const letter of value) sum = (sum * 31 + letter.charCodeAt(0)) % 625
  return Array.from(sum.toString(5), (digit) => keys[Number(digit)]!).join('')
}

const toState = (built: Built): object => ({
  tables: built.tables.map((table) => [...table.keys()].sort().map((key) => ({ ...table.get(key), at: key }))),
  indexes: built.indexes.map((index) =>
    [...keys, '-', '_', '0', '1'].map((term) =>
      index
        .lookup(term)
        .map((each) => `${each.key}=${each.value}`)
        .sort(),
    ),
  ),
})

/** Keeps a copy of every table by the changes that are told, and checks that each change is one. */
function followChanges(built: Built): { readonly copies: readonly ReadonlyMap<string, Row>[] } {
  const copies = built.tables.map(() => new Map<string, Row>())
  built.tables.forEach((table, place) => {
    const copy = copies[place]!
    built.graph.onCommit(table, (changes: readonly Change<Row>[]) => {
      strictEqual(new Set(changes.map((change) => change.key)).size, changes.length)
      for (const { key, old, now } of changes) {
        deepStrictEqual(old, copy.get(key))
        notDeepStrictEqual(now, old)
        ok(now === table.get(key))
        if (now === undefined) copy.delete(key)
        else copy.set(key, now)
      }
    })
  })
  return { copies }
}

function apply(built: Built, event: Event): void {
  switch (event.kind) {
    case 'set':
      built.sources[event.source]!.set(event.key, row(event.key, event.value))
      return
    case 'delete':
      built.sources[event.source]!.delete(event.key)
      return
    case 'replace':
      built.sources[event.source]!.replace(new Map(event.rows.map(([key, value]) => [key, row(key, value)])))
      return
    case 'setting':
      built.domain.set(event.value)
      return
    case 'commit':
      built.graph.commit()
  }
}

const anyStep: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('copy', 'join by key', 'join by term', 'many', 'rekey', 'filter', 'distinct', 'union'),
  of: fc.nat(20),
  by: fc.nat(20),
  to: fc.nat(20),
})
const anySource = fc.nat(sourceCount - 1)
const anyKey = fc.constantFrom(...keys)
const anyValue = fc.string({ unit: fc.constantFrom(...keys), minLength: 0, maxLength: 3 })
const anyEvent: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('set'), source: anySource, key: anyKey, value: anyValue }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete'), source: anySource, key: anyKey }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('commit') }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('setting'), value: fc.constantFrom('0', '1') }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('replace'),
      source: anySource,
      rows: fc.array(fc.tuple(anyKey, anyValue), { maxLength: 5 }),
    }),
  },
)
const anyStory = fc.record({
  steps: fc.array(anyStep, { minLength: 1, maxLength: 10 }),
  events: fc.array(anyEvent, { minLength: eventsPerRun, maxLength: eventsPerRun }),
})

describe('any graph after any events', () => {
  const numRuns = Math.ceil(events / eventsPerRun)

  test(`equals one built fresh from the final rows, and its changes add up to them (seed ${seed}, ${numRuns} graphs of ${eventsPerRun} events)`, () => {
    fc.assert(
      fc.property(anyStory, ({ steps, events: story }) => {
        const built = build(steps)
        const { copies } = followChanges(built)
        for (const event of story) apply(built, event)
        built.graph.commit()
        const fresh = build(steps)
        fresh.domain.set(built.domain.get())
        built.sources.forEach((source, place) => {
          for (const key of [...source.keys()].reverse()) fresh.sources[place]!.set(key, source.get(key)!)
        })
        fresh.graph.commit()
        deepStrictEqual(toState(built), toState(fresh))
        deepStrictEqual(built.graph.footprint(), fresh.graph.footprint())
        built.tables.forEach((table, place) => {
          deepStrictEqual(copies[place], new Map([...table.keys()].map((key) => [key, table.get(key)])))
        })
        strictEqual(built.graph.commit(), false)
        for (const source of built.sources) source.replace(new Map())
        built.graph.commit()
        deepStrictEqual(built.graph.footprint(), { rows: 0, slots: 0, cells: 0, reads: 0, rest: 0 })
      }),
      { seed, numRuns },
    )
  })
})

describe('any row that fails at any time', () => {
  const numRuns = Math.ceil(events / eventsPerRun / 4)
  const anyFailingStory = fc.array(anyEvent, { minLength: eventsPerRun, maxLength: eventsPerRun })

  test(`keeps its last good output, and every other row is as built fresh (seed ${seed}, ${numRuns} graphs of ${eventsPerRun} events)`, () => {
    const buildFailing = () => {
      const built = build([])
      const [rows, others, index] = [built.tables[0]!, built.tables[1]!, built.indexes[1]!]
      const out = built.graph.derive<Row, Row>(
        'out',
        rows,
        (input, read) => {
          const found = read.one(others, input.value.slice(0, 1))
          if (found?.value.startsWith('c') === true) throw new Error(`met ${found.value}`)
          const size = read.many(index, input.value.slice(1, 2)).length
          return row(input.key, `${found?.value ?? '-'}${size}`)
        },
        rowOptions,
      )
      return { ...built, out }
    }
    const isFailing = (built: Built, input: Row): boolean =>
      built.sources[1]!.get(input.value.slice(0, 1))?.value.startsWith('c') === true
    fc.assert(
      fc.property(anyFailingStory, (story) => {
        const built = buildFailing()
        const expected = new Map<string, Row>()
        const check = (): void => {
          const fresh = buildFailing()
          built.sources.forEach((source, place) => {
            for (const key of source.keys()) fresh.sources[place]!.set(key, source.get(key)!)
          })
          fresh.graph.commit()
          for (const key of [...expected.keys()]) if (built.sources[0]!.get(key) === undefined) expected.delete(key)
          for (const input of built.sources[0]!.values()) {
            if (!isFailing(built, input)) expected.set(input.key, fresh.out.get(input.key)!)
          }
          deepStrictEqual(new Map([...built.out.keys()].map((key) => [key, built.out.get(key)])), expected)
        }
        for (const event of story) {
          apply(built, event)
          if (event.kind === 'commit') check()
        }
        built.graph.commit()
        check()
      }),
      { seed, numRuns },
    )
  })
})
