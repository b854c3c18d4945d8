// SPDX-License-Identifier: Apache-2.0
// Typed reading of one JSON object. For the projections. `null` counts as absent, as in Kubernetes; a value of the wrong type is an
// InvalidInput that names the object and the field. Never changes what it reads.

import { InvalidInput } from '../base/errors.js'
import { freezeTexts, internLabels, internString } from './intern.js'
import type { Labels } from './records.js'

type Json = Readonly<Record<string, unknown>>

/** True for a JSON object: not null, not a list. */
export function isJsonObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const shapes = new Map<unknown, string>([
  [null, 'null'],
  [undefined, 'absent'],
])

function formatShape(value: unknown): string {
  const named = shapes.get(value)
  if (named !== undefined) return named
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  if (typeof value === 'number' && !Number.isInteger(value)) return 'a fraction'
  return `a ${typeof value}`
}

/** A JSON object with its place: `subject` names the Kubernetes object, `path` the way from its top. */
export class Part {
  constructor(
    readonly raw: Json,
    readonly path: string,
    readonly subject: string,
  ) {}

  /** The error for a field of this part. `wanted` says what it must be. */
  refuse(field: string, wanted: string, value: unknown = this.raw[field]): InvalidInput {
    const path = this.path === '' ? field : `${this.path}.${field}`
    return new InvalidInput(`${this.subject}: ${path} must be ${wanted}, it is ${formatShape(value)}`)
  }

  has(field: string): boolean {
    const value = this.raw[field]
    return value !== undefined && value !== null
  }

  optionalText(field: string): string | undefined {
    const value = this.raw[field]
    if (value === undefined || value === null) return undefined
    if (typeof value !== 'string') throw this.refuse(field, 'a string')
    return value
  }

  /** Empty when absent. */
  text(field: string): string {
    return this.optionalText(field) ?? ''
  }

  /** Like text, one copy for all equal ones. */
  shared(field: string): string {
    return internString(this.text(field))
  }

  flag(field: string): boolean {
    return this.optionalFlag(field) ?? false
  }

  optionalFlag(field: string): boolean | undefined {
    const value = this.raw[field]
    if (value === undefined || value === null) return undefined
    if (typeof value !== 'boolean') throw this.refuse(field, 'true or false')
    return value
  }

  /** From 0 to `most`, which is by default what the wire can carry. */
  optionalInteger(field: string, most = 0xffff_ffff): number | undefined {
    const value = this.raw[field]
    if (value === undefined || value === null) return undefined
    if (typeof value !== 'number' || !Number.isInteger(value)) throw this.refuse(field, 'a whole number')
    if (value < 0 || value > most) {
      const path = this.path === '' ? field : `${this.path}.${field}`
      throw new InvalidInput(`${this.subject}: ${path} must be a whole number from 0 to ${most}, it is ${value}`)
    }
    return value
  }

  /** 0 when absent. */
  integer(field: string): number {
    return this.optionalInteger(field) ?? 0
  }

  /** A port number; 0 when absent. */
  port(field: string): number {
    return this.optionalPort(field) ?? 0
  }

  optionalPort(field: string): number | undefined {
    return this.optionalInteger(field, 0xffff)
  }

  part(field: string): Part | undefined {
    const value = this.raw[field]
    if (value === undefined || value === null) return undefined
    if (!isJsonObject(value)) throw this.refuse(field, 'an object')
    return new Part(value, this.#below(field), this.subject)
  }

  list(field: string): readonly unknown[] | undefined {
    const value = this.raw[field]
    if (value === undefined || value === null) return undefined
    if (!Array.isArray(value)) throw this.refuse(field, 'a list')
    return value as readonly unknown[]
  }

  /** Each item as a part; empty when absent. */
  parts(field: string): readonly Part[] {
    const out: Part[] = []
    for (const [i, item] of (this.list(field) ?? []).entries()) {
      if (!isJsonObject(item)) throw this.refuse(`${field}[${i}]`, 'an object', item)
      out.push(new Part(item, this.#below(`${field}[${i}]`), this.subject))
    }
    return out
  }

  /** A frozen list of texts; empty when absent. */
  texts(field: string): readonly string[] {
    const out: string[] = []
    for (const [i, item] of (this.list(field) ?? []).entries()) {
      if (typeof item !== 'string') throw this.refuse(`${field}[${i}]`, 'a string', item)
      out.push(item)
    }
    return freezeTexts(out)
  }

  /** A map of texts, interned; undefined when absent, `{}` is kept. A null value is the empty text. */
  labels(field: string): Labels | undefined {
    const map = this.part(field)
    if (map === undefined) return undefined
    const flat: string[] = []
    for (const key of Object.keys(map.raw)) flat.push(key, map.text(key))
    return internLabels(flat)
  }

  /** Like labels, but an empty map is absent. */
  filledLabels(field: string): Labels | undefined {
    const map = this.raw[field]
    return isJsonObject(map) && Object.keys(map).length === 0 ? undefined : this.labels(field)
  }

  /** The entries of a map of texts whose keys are in `wanted`; undefined when none is there. */
  selectLabels(field: string, wanted: readonly string[]): Labels | undefined {
    const map = this.part(field)
    if (map === undefined) return undefined
    const flat: string[] = []
    for (const key of wanted) {
      if (Object.hasOwn(map.raw, key)) flat.push(key, map.text(key))
    }
    return flat.length === 0 ? undefined : internLabels(flat)
  }

  /** A time as Kubernetes writes it, in whole seconds since the epoch; 0 when absent. */
  seconds(field: string): number {
    const text = this.optionalText(field)
    if (text === undefined) return 0
    const ms = Date.parse(text)
    if (Number.isNaN(ms)) throw this.refuse(field, 'a time such as 2026-01-01T00:00:00Z')
    return Math.floor(ms / 1000)
  }

  #below(field: string): string {
    return this.path === '' ? field : `${this.path}.${field}`
  }
}
