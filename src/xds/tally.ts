// SPDX-License-Identifier: Apache-2.0
// Metrics that cost an addition: cells of plain numbers, read out only when somebody scrapes. For what happens a thousand times a push. Registers with prom-client, uses no more of it.

import type { Metric, Registry } from 'prom-client'

type Labels = Readonly<Record<string, string>>

/** One number to add to. */
export interface Cell {
  value: number
}

interface Value {
  readonly value: number
  readonly labels: Labels | Readonly<Record<string, string | number>>
  readonly metricName?: string
}

abstract class Tally<Row> {
  readonly #rows = new Map<string, { readonly labels: Labels; readonly row: Row }>()

  constructor(
    registry: Registry,
    readonly name: string,
    readonly help: string,
    readonly type: 'counter' | 'gauge' | 'histogram',
  ) {
    // Of a metric the registry needs what this class has: a name, and values when asked.
    registry.registerMetric(this as unknown as Metric)
  }

  protected abstract make(): Row
  protected abstract values(labels: Labels, row: Row): Value[]

  protected row(labels: Labels): Row {
    const key = Object.values(labels).join('\n')
    let found = this.#rows.get(key)
    if (found === undefined) {
      found = { labels, row: this.make() }
      this.#rows.set(key, found)
    }
    return found.row
  }

  reset(): void {
    this.#rows.clear()
  }

  get(): Promise<{ name: string; help: string; type: string; values: Value[]; aggregator: string }> {
    const values = [...this.#rows.values()].flatMap(({ labels, row }) => this.values(labels, row))
    return Promise.resolve({ name: this.name, help: this.help, type: this.type, values, aggregator: 'sum' })
  }
}

/** A counter or a gauge. A label combination shows up once its cell was asked for. */
export class Numbers extends Tally<Cell> {
  constructor(registry: Registry, type: 'counter' | 'gauge', name: string, help: string) {
    super(registry, name, help, type)
  }

  cell(labels: Labels = {}): Cell {
    return this.row(labels)
  }

  protected make(): Cell {
    return { value: 0 }
  }

  protected values(labels: Labels, row: Cell): Value[] {
    return [{ value: row.value, labels }]
  }
}

/** Observations of one label combination, by bucket. */
export class Buckets {
  readonly counts: Float64Array
  sum = 0
  count = 0
  readonly #edges: readonly number[]

  constructor(edges: readonly number[]) {
    this.#edges = edges
    this.counts = new Float64Array(edges.length)
  }

  /** The same value seen `times` times. */
  observe(value: number, times = 1): void {
    this.sum += value * times
    this.count += times
    for (let i = 0; i < this.#edges.length; i++) {
      if (value <= (this.#edges[i] ?? Infinity)) {
        this.counts[i] = (this.counts[i] ?? 0) + times
        return
      }
    }
  }
}

export class Histograms extends Tally<Buckets> {
  readonly #edges: readonly number[]

  constructor(registry: Registry, name: string, help: string, edges: readonly number[]) {
    super(registry, name, help, 'histogram')
    this.#edges = edges
  }

  cell(labels: Labels = {}): Buckets {
    return this.row(labels)
  }

  protected make(): Buckets {
    return new Buckets(this.#edges)
  }

  protected values(labels: Labels, row: Buckets): Value[] {
    let below = 0
    const values: Value[] = this.#edges.map((edge, i) => {
      below += row.counts[i] ?? 0
      return { value: below, labels: { ...labels, le: edge }, metricName: `${this.name}_bucket` }
    })
    values.push({ value: row.count, labels: { ...labels, le: '+Inf' }, metricName: `${this.name}_bucket` })
    values.push({ value: row.sum, labels, metricName: `${this.name}_sum` })
    values.push({ value: row.count, labels, metricName: `${this.name}_count` })
    return values
  }
}
