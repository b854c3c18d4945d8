// SPDX-License-Identifier: Apache-2.0
// What a derived collection is, for everyone who makes or reads one. The engine behind it is graph.ts. Knows no Kubernetes, no protobuf.

/** One row changed. `old` and `now` are never both absent and never equal. */
export interface Change<V> {
  readonly key: string
  readonly old: V | undefined
  readonly now: V | undefined
}

/** A keyed table of frozen rows. */
export interface Collection<V> {
  readonly name: string
  readonly size: number
  get(key: string): V | undefined
  keys(): Iterable<string>
  values(): Iterable<V>
  /** Files each row under zero or more terms; besides the key, a term is the only thing one can join on. */
  index(name: string, terms: (row: V) => readonly string[]): Index<V>
}

/** Rows of one collection by term. Order of a lookup is unspecified: sort where it matters. */
export interface Index<V> {
  readonly name: string
  lookup(term: string): readonly V[]
}

/** Fed from outside. A row equal to the last is dropped here, so that noise stops at the door. What is set shows here at once, and in what derives from it after the next commit. */
export interface Source<V> extends Collection<V> {
  set(key: string, row: V): void
  delete(key: string): void
  /** A fresh list: these rows are all there are. Never passes through emptiness. */
  replace(rows: ReadonlyMap<string, V>): void
}

/** One value that every row may depend on. A change (by `equal`) re-runs all its readers. */
export interface Setting<V> {
  readonly name: string
  get(): V
  set(value: V): void
}

/** How a transform sees other tables: by key or by term. The engine records each read; that is what keeps re-computation exact. */
export interface Read {
  one<V>(from: Collection<V>, key: string): V | undefined
  many<V>(from: Index<V>, term: string): readonly V[]
  setting<V>(from: Setting<V>): V
}

/**
 * Pure: same row and same reads, same output; it may run at any time and any number of times. `undefined` = no rows.
 * When it throws, the row's last good output stays, the failure is reported once with the row's key, and it is tried again at the next change of its inputs.
 */
export type Transform<I, O> = (row: I, read: Read) => O | readonly O[] | undefined

export interface DeriveOptions<O> {
  /** Key of an output row. When two input rows give the same key, the row of the lowest input key stays whatever came first, the other is reported and takes over when it goes. One input row giving a key twice is a failure. */
  key(out: O): string
  equal(a: O, b: O): boolean
}

/** Where failures of transforms go: once per failing row and message. */
export type OnFailure = (failure: {
  readonly collection: string
  readonly key: string
  readonly error: unknown
}) => void

/** The tables of one program and the order in which they are computed (creation order: a transform reads only what was made before it). */
export interface Graph {
  source<V>(name: string, equal: (a: V, b: V) => boolean): Source<V>
  setting<V>(name: string, initial: V, equal?: (a: V, b: V) => boolean): Setting<V>
  derive<I, O>(name: string, from: Collection<I>, transform: Transform<I, O>, options: DeriveOptions<O>): Collection<O>
  /** One row per distinct group key, kept while any row of `from` picks it. The key must decide the whole group. */
  distinct<V, G>(
    name: string,
    from: Collection<V>,
    pick: (row: V) => readonly [key: string, group: G] | undefined,
  ): Collection<G>
  /** All rows of the parts; on equal keys the earlier part wins. */
  union<V>(name: string, ...parts: readonly Collection<V>[]): Collection<V>
  /** Called when the first row goes dirty after a commit: arm a timer, then commit(). */
  onDirty(wake: () => void): void
  /** Re-runs each dirty row once, in creation order, then tells each listener once. Synchronous; true when anything changed. */
  commit(): boolean
  /** Changes of one collection over a whole commit: at most one per key, `old` as of the previous commit. Not called when empty. */
  onCommit<V>(of: Collection<V>, listener: (changes: readonly Change<V>[]) => void): void
  /** Called at the end of each commit, after every onCommit listener. */
  afterCommit(listener: () => void): void
}
