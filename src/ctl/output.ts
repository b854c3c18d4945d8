// SPDX-License-Identifier: Apache-2.0
// Where text goes and in which form: tables for people, JSON and YAML for programs. One document per answer.

import { InvalidInput } from '../base/errors.js'
import type { Clock } from '../base/clock.js'

/** The outside of one run. */
export interface CtlIo {
  stdout(text: string): void
  stderr(text: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted when the person has seen enough. */
  readonly signal?: AbortSignal
  readonly isTty?: boolean
  /** Default: the system's. */
  readonly clock?: Clock
}

export type OutputForm = 'table' | 'wide' | 'json' | 'yaml'

/** Throws InvalidInput that names the choices. */
export function parseOutputForm(text: string): OutputForm {
  if (text === 'table' || text === 'wide' || text === 'json' || text === 'yaml') return text
  throw new InvalidInput(`"${text}" is not a form of output; choose table, wide, json or yaml`)
}

/** A JSON value as one indented JSON or YAML document that ends with a newline. */
export async function formatDocument(value: unknown, form: 'json' | 'yaml'): Promise<string> {
  if (form === 'json') return `${JSON.stringify(value, undefined, 2)}\n`
  const { stringify } = await import('yaml')
  return stringify(value, { lineWidth: 0 })
}

/** A JSON value as one of a row of documents: one line of JSON, or a YAML document that says where it begins. */
export async function formatNextDocument(value: unknown, form: 'json' | 'yaml'): Promise<string> {
  return form === 'json' ? `${JSON.stringify(value)}\n` : `---\n${await formatDocument(value, 'yaml')}`
}
