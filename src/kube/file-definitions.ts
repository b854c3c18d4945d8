// SPDX-License-Identifier: Apache-2.0
// Every definition of every object in the folder, which of them counts, and what changes in the inputs when files come, change and go.
// For the file source. Reads no disk and knows no time; nothing reaches the inputs before apply().

import type { Source } from '../collection/types.js'
import type { Logger } from '../base/log.js'
import type { ManifestItem } from './file-manifest.js'
import { readItem, type Identity, type Place } from './file-object.js'
import { ProblemLedger, type Problem } from './file-problems.js'
import { kinds, type Inputs } from './inputs.js'
import type { Kind, RecordByKind } from './records.js'

interface Definition {
  readonly file: string
  /** Place in the file: of two definitions the lower one counts. */
  readonly order: number
  readonly line: number
  readonly identity: Identity
  readonly record: RecordByKind[Kind]
}

interface FileState {
  readonly definitions: readonly Definition[]
  readonly problems: readonly Problem[]
}

export interface DefinitionsOptions {
  readonly inputs: Inputs
  readonly place: Place
  readonly log: Logger
  /** A file's path as logs show it. */
  formatFile(path: string): string
}

const kept = 'a manifest is wrong here; the last good content stays'
const left = 'a manifest is wrong here; this is left out'
const formatId = ({ kind, key }: Identity): string => `${kind} ${key}`

function isBefore(a: Definition, b: Definition): boolean {
  const byPath = a.file === b.file ? 0 : Buffer.compare(Buffer.from(a.file), Buffer.from(b.file))
  return byPath === 0 ? a.order < b.order : byPath < 0
}

export class Definitions {
  readonly #inputs: Inputs
  readonly #place: Place
  readonly #log: Logger
  readonly #ledger: ProblemLedger
  readonly #formatFile: (path: string) => string
  readonly #files = new Map<string, FileState>()
  readonly #byId = new Map<string, Set<Definition>>()
  /** What the inputs hold. */
  readonly #applied = new Map<string, Definition>()
  readonly #repeats = new Map<string, readonly Definition[]>()
  readonly #dirty = new Set<string>()
  readonly #tell = new Set<string>()
  #isFilled = false

  constructor(options: DefinitionsOptions) {
    this.#inputs = options.inputs
    this.#place = options.place
    this.#log = options.log
    this.#formatFile = (path) => options.formatFile(path)
    this.#ledger = new ProblemLedger(options.log, this.#formatFile)
  }

  /** Every file that something is known of. */
  files(): Iterable<string> {
    return this.#files.keys()
  }

  /** A file as it reads now. Of an object that is wrong, the last good version stays; the others go on. */
  take(file: string, items: readonly ManifestItem[]): void {
    const old = this.#files.get(file)?.definitions ?? []
    const lastGood = new Map(old.toReversed().map((d) => [formatId(d.identity), d]))
    const definitions: Definition[] = []
    const problems: Problem[] = []
    const unnamed: { kind: Kind | undefined }[] = []
    for (const [order, item] of items.entries()) {
      const { line } = item
      const reading = readItem(item, this.#place)
      if (reading.type === 'other') {
        this.#log.debug({ file: this.#formatFile(file), line, kind: reading.kind }, 'passed over: this is not read')
        continue
      }
      if (reading.type === 'good') {
        const { identity, record, notices, falseAddresses } = reading
        definitions.push({ file, order, line, identity, record })
        for (const reason of notices) {
          problems.push({
            subject: `${identity.subject} (left out)`,
            message: 'a manifest leaves out what is not made up',
            line,
            object: identity.subject,
            reason,
          })
        }
        if (falseAddresses !== undefined) {
          problems.push({
            subject: `${identity.subject} (addresses)`,
            message: 'a manifest has an address that is none',
            line,
            object: identity.subject,
            reason: falseAddresses,
          })
        }
        continue
      }
      const { identity, subject, reason } = reading
      const last = identity && lastGood.get(formatId(identity))
      if (last !== undefined) definitions.push({ ...last, order, line })
      else if (identity === undefined) unnamed.push({ kind: reading.kind })
      problems.push({
        subject: identity?.subject ?? `line ${line}`,
        message: last === undefined ? left : kept,
        line,
        object: subject,
        reason,
      })
    }
    this.#replace(file, {
      definitions: [...definitions, ...selectUnclear(old, definitions, unnamed, items.length)],
      problems,
    })
  }

  /** A file that cannot be read at all keeps its last good content whole. */
  refuse(file: string, reason: string, line: number | undefined): void {
    const definitions = this.#files.get(file)?.definitions ?? []
    const message = definitions.length === 0 ? left : kept
    const subject = line === undefined ? 'file' : `line ${line}`
    this.#replace(file, { definitions, problems: [{ subject, message, line, object: undefined, reason }] })
  }

  /** A file that is gone: so is what it defined. */
  drop(file: string): void {
    this.#replace(file, undefined)
  }

  /** Brings the inputs to what the files say, in one go, and tells what is wrong. Gives the number of objects set and deleted. */
  apply(): number {
    const changed = this.#isFilled ? this.#applyChanges() : this.#fill()
    this.#dirty.clear()
    for (const file of this.#tell) {
      this.#ledger.report(file, [...(this.#files.get(file)?.problems ?? []), ...this.#selectRepeats(file)])
    }
    this.#tell.clear()
    return changed
  }

  #replace(file: string, state: FileState | undefined): void {
    for (const definition of this.#files.get(file)?.definitions ?? []) {
      const id = formatId(definition.identity)
      this.#byId.get(id)?.delete(definition)
      this.#dirty.add(id)
    }
    for (const definition of state?.definitions ?? []) {
      const id = formatId(definition.identity)
      const all = this.#byId.get(id) ?? new Set()
      this.#byId.set(id, all.add(definition))
      this.#dirty.add(id)
    }
    if (state === undefined) this.#files.delete(file)
    else this.#files.set(file, state)
    this.#tell.add(file)
  }

  /** The definition of a dirty object that counts; remembers the others, so that they are told. */
  #choose(id: string): Definition | undefined {
    const all = this.#byId.get(id)
    if (all?.size === 0) this.#byId.delete(id)
    let first: Definition | undefined
    for (const definition of all ?? []) if (first === undefined || isBefore(definition, first)) first = definition
    const repeats = [...(all ?? [])].filter((definition) => definition !== first)
    for (const { file } of [...repeats, ...(this.#repeats.get(id) ?? [])]) this.#tell.add(file)
    if (repeats.length === 0) this.#repeats.delete(id)
    else this.#repeats.set(id, repeats)
    return first
  }

  #selectRepeats(file: string): readonly Problem[] {
    const out: Problem[] = []
    for (const definition of this.#files.get(file)?.definitions ?? []) {
      const id = formatId(definition.identity)
      const counts = this.#applied.get(id)
      if (counts === undefined || !this.#repeats.get(id)?.includes(definition)) continue
      const { subject } = definition.identity
      const first = this.#formatFile(counts.file)
      out.push({
        subject: `${subject} (again)`,
        message: 'an object is defined twice; the first definition by path stays',
        line: definition.line,
        object: subject,
        reason: `${subject} is defined in ${first} too`,
        first: `${first}:${counts.line}`,
      })
    }
    return out
  }

  #fill(): number {
    this.#isFilled = true
    for (const id of this.#dirty) {
      const definition = this.#choose(id)
      if (definition !== undefined) this.#applied.set(id, definition)
    }
    const rows = new Map<Kind, Map<string, object>>(kinds.map((kind) => [kind, new Map()]))
    for (const { identity, record } of this.#applied.values()) rows.get(identity.kind)?.set(identity.key, record)
    for (const [kind, all] of rows) this.#source(kind).replace(all)
    return this.#applied.size
  }

  #applyChanges(): number {
    let changed = 0
    for (const id of this.#dirty) {
      const definition = this.#choose(id)
      const known = this.#applied.get(id)
      if (definition !== undefined) this.#applied.set(id, definition)
      else this.#applied.delete(id)
      const { kind, key } = (definition ?? known)?.identity ?? {}
      if (kind === undefined || key === undefined || definition?.record === known?.record) continue
      if (definition === undefined) this.#source(kind).delete(key)
      else this.#source(kind).set(key, definition.record)
      changed++
    }
    return changed
  }

  /** A row always meets the source of its own kind; the compiler cannot see that through a union. */
  #source(kind: Kind): Source<object> {
    return this.#inputs[kind]
  }
}

/**
 * An item without a name may have been any object that this file defined before and does not name now. Rather than delete the wrong one,
 * all of that kind stay until the item can be read again.
 */
function selectUnclear(
  old: readonly Definition[],
  now: readonly Definition[],
  unnamed: readonly { readonly kind: Kind | undefined }[],
  order: number,
): readonly Definition[] {
  if (unnamed.length === 0) return []
  const named = new Set(now.map((d) => formatId(d.identity)))
  return old
    .filter(
      (d) =>
        !named.has(formatId(d.identity)) && unnamed.some((u) => u.kind === undefined || u.kind === d.identity.kind),
    )
    .map((d, i) => ({ ...d, order: order + i }))
}
