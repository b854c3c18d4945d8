// SPDX-License-Identifier: Apache-2.0
// The text of one manifest file -> its objects with the lines they start on. For the file source. Reads YAML or JSON, one or many documents,
// lists flattened. Knows no kinds besides List and judges no object.

import { Composer, LineCounter, Parser, isMap, isSeq, visit, type Document, type ParsedNode } from 'yaml'
import { InvalidInput, formatError } from '../base/errors.js'
import { splitJsonItems, splitJsonValues } from './file-json.js'
import { isJsonObject } from './part.js'

/** Something that stands where an object should stand, in document order. */
export interface ManifestItem {
  readonly value: unknown
  /** 1 is the first line of the file. */
  readonly line: number
}

/** A file that is not YAML or JSON. `line` is where the reader gave up. */
export class UnreadableManifest extends InvalidInput {
  constructor(
    message: string,
    readonly line: number,
    cause?: unknown,
  ) {
    super(message, cause)
  }
}

/** After this much text the event loop gets a turn. */
const breathBytes = 16 * 1024

/**
 * Reads a whole file. Empty documents are nothing. The items of a `List`, and of a `PodList` and the like, stand for themselves; an item
 * that leaves out its kind has the one its list names. Throws UnreadableManifest.
 */
export async function parseManifest(text: string): Promise<readonly ManifestItem[]> {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text
  return (/^\s*\{/.test(body) ? parseJson(body) : undefined) ?? (await parseYaml(body))
}

/** Undefined when it is not JSON through and through: YAML may start like it, and its reader names the line of a mistake. */
function parseJson(text: string): readonly ManifestItem[] | undefined {
  const out: ManifestItem[] = []
  const lines = new LineCounter()
  lines.addNewLine(0)
  for (let i = text.indexOf('\n'); i >= 0; i = text.indexOf('\n', i + 1)) lines.addNewLine(i + 1)
  try {
    for (const [start, end] of splitJsonValues(text)) {
      const value: unknown = JSON.parse(text.slice(start, end))
      const starts = isList(value) ? splitJsonItems(text, start, end) : []
      const at = (offset: number): number => lines.linePos(offset).line
      flatten(out, value, at(start), (i) => at(starts[i] ?? start))
    }
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
  return out
}

async function parseYaml(text: string): Promise<readonly ManifestItem[]> {
  const out: ManifestItem[] = []
  const lines = new LineCounter()
  // Core schema, as JSON has it: `yes` and 2026-01-01T00:00:00Z stay text.
  const composer = new Composer<ParsedNode>({ merge: true, prettyErrors: false, logLevel: 'silent' })
  let breath = breathBytes
  for (const token of new Parser(lines.addNewLine).parse(text)) {
    for (const document of composer.next(token)) addDocument(out, document, lines)
    if ('offset' in token && token.offset > breath) {
      breath = token.offset + breathBytes
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  for (const document of composer.end()) addDocument(out, document, lines)
  const stray = composer.streamInfo().errors[0]
  if (stray !== undefined) throw new UnreadableManifest(stray.message, lines.linePos(stray.pos[0]).line, stray)
  return out
}

function addDocument(out: ManifestItem[], document: Document.Parsed, lines: LineCounter): void {
  const lineOf = (offset: number): number => lines.linePos(offset).line
  const mistake = document.errors[0]
  if (mistake !== undefined) throw new UnreadableManifest(mistake.message, lineOf(mistake.pos[0]), mistake)
  const root = document.contents
  if (root === null) return
  const line = lineOf(root.range[0])
  const items = isMap(root) ? root.get('items', true) : undefined
  const starts = isSeq<ParsedNode>(items) ? items.items.map((item) => item.range[0]) : []
  flatten(out, toPlain(document, lineOf), line, (i) => lineOf(starts[i] ?? root.range[0]))
}

function toPlain(document: Document.Parsed, lineOf: (offset: number) => number): unknown {
  try {
    return document.toJS()
  } catch (error) {
    // Aliases that name nothing, or so many that they would fill the memory.
    let at = document.contents?.range[0] ?? 0
    visit(document, {
      Alias(_key, alias) {
        if (alias.resolve(document) !== undefined) return undefined
        at = alias.range?.[0] ?? at
        return visit.BREAK
      },
    })
    throw new UnreadableManifest(formatError(error), lineOf(at), error)
  }
}

function isList(value: unknown): value is Readonly<Record<string, unknown>> & { readonly items: readonly unknown[] } {
  return (
    isJsonObject(value) && typeof value.kind === 'string' && value.kind.endsWith('List') && Array.isArray(value.items)
  )
}

function flatten(out: ManifestItem[], value: unknown, line: number, lineOf: (index: number) => number): void {
  if (value === null || value === undefined) return
  if (!isList(value)) {
    out.push({ value, line })
    return
  }
  const kind = String(value.kind).slice(0, -'List'.length)
  for (const [i, item] of value.items.entries()) {
    const whole =
      kind !== '' && isJsonObject(item) && item.kind === undefined
        ? { apiVersion: value.apiVersion, kind, ...item }
        : item
    const at = lineOf(i)
    // A list inside a list: its items have no lines of their own here.
    if (isList(whole)) flatten(out, whole, at, () => at)
    else out.push({ value: whole, line: at })
  }
}
