// SPDX-License-Identifier: Apache-2.0
// Settings as one table: flag, environment name, default, type and a sentence each. Reads a command line and an environment into one frozen object.
// Finds every problem before it gives up; never reads process.argv or process.env itself.

import { InvalidInput, formatError } from './errors.js'

/** How the text of a setting becomes a value. */
export interface ValueType<T> {
  /** What a person writes there, for help texts: `DURATION`. */
  readonly label: string
  /** Throws InvalidInput with a sentence that quotes the text. */
  parse(text: string): T
  /** `--name` alone means true; a value follows only after `=`. */
  readonly isSwitch?: true
}

export interface Setting<T> {
  /** Heading in help and documentation. */
  readonly group: string
  /** Long flag without dashes. */
  readonly flag?: string
  /** One-letter flag without dash. */
  readonly short?: string
  readonly env?: string
  /** As a person would write it. */
  readonly default: string
  /** What help says instead, where the default depends on the machine. */
  readonly shownDefault?: string
  readonly type: ValueType<T>
  readonly sentence: string
  /** The name, and what it means, come from istiod. */
  readonly fromIstiod?: true
}

export type SettingsTable = Readonly<Record<string, Setting<unknown>>>

/** The values of a table. */
export type SettingsOf<T extends SettingsTable> = {
  readonly [K in keyof T]: T[K] extends { readonly type: ValueType<infer V> } ? V : never
}

/** A flag that other programs have and that changes nothing here: taken, with a warning. */
export interface IgnoredFlag {
  readonly flag: string
  readonly short?: string
  /** `none`: a switch, which takes a value only after `=`. */
  readonly value: 'one' | 'none'
  /** Why it changes nothing; follows "--flag is ignored: ". */
  readonly why: string
}

export interface SettingsInput<T extends SettingsTable> {
  readonly table: T
  readonly ignored?: readonly IgnoredFlag[]
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Environment names that start so are ours; an unknown one among them is a problem. */
  readonly ownPrefix: string
  /** Names with that prefix that belong to a sibling program. */
  readonly siblingEnv?: readonly string[]
  /** Rules between several settings; each sentence given back is a problem. Only called when every value could be read. */
  readonly check?: (settings: SettingsOf<T>) => readonly string[]
}

type FlatInput = Omit<SettingsInput<SettingsTable>, 'check'>

export interface ReadSettings<T extends SettingsTable> {
  readonly settings: SettingsOf<T>
  /** One sentence each, for the log. */
  readonly warnings: readonly string[]
}

/**
 * A flag wins over the environment, the environment over the default; a flag given twice counts with its last value. Flags are written `--name value`,
 * `--name=value` or, for switches, `--name`. An environment value that is empty counts as not set; an empty flag value is a value.
 * Throws one InvalidInput that lists every problem.
 */
export function parseSettings<T extends SettingsTable>(input: SettingsInput<T>): ReadSettings<T> {
  const problems: string[] = []
  const warnings: string[] = []
  const given = readFlags(input, problems, warnings)
  const values: Record<string, unknown> = {}
  for (const [key, setting] of Object.entries(input.table)) {
    const { text, from } = selectText(setting, given.get(key), input.env)
    try {
      values[key] = setting.type.parse(text)
    } catch (error) {
      problems.push(`${from}: ${formatError(error)}`)
    }
  }
  problems.push(...selectUnknownEnv(input))
  const settings = Object.freeze(values) as SettingsOf<T>
  if (problems.length === 0) problems.push(...(input.check?.(settings) ?? []))
  if (problems.length > 0) {
    const head = problems.length === 1 ? 'the settings have a problem' : `the settings have ${problems.length} problems`
    throw new InvalidInput(`${head}:\n${problems.map((p) => `  ${p}`).join('\n')}`)
  }
  return { settings, warnings }
}

function selectText(
  setting: Setting<unknown>,
  flagText: string | undefined,
  env: FlatInput['env'],
): { text: string; from: string } {
  if (flagText !== undefined) return { text: flagText, from: `--${setting.flag ?? ''}` }
  const envText = setting.env === undefined ? undefined : env[setting.env]
  if (envText !== undefined && envText !== '') return { text: envText, from: setting.env ?? '' }
  return { text: setting.default, from: 'default' }
}

interface KnownFlag {
  /** Key of the table; undefined for an ignored flag. */
  readonly key: string | undefined
  readonly isSwitch: boolean
  readonly why: string
}

function readFlags(input: FlatInput, problems: string[], warnings: string[]): Map<string, string> {
  const known = toKnownFlags(input)
  const given = new Map<string, string>()
  const argv = input.argv
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] ?? ''
    if (!word.startsWith('-') || word === '-' || word === '--') {
      if (word !== '--' || i < argv.length - 1) problems.push(`"${word}" is not a flag; this command takes flags only`)
      continue
    }
    const equals = word.indexOf('=')
    const name = equals < 0 ? word : word.slice(0, equals)
    const flag = known.get(name)
    if (flag === undefined) {
      problems.push(`${name} is not a flag of this command${formatNearest(name, known)}`)
      // Its value, if it has one, would only add a second complaint about the same thing.
      if (equals < 0 && i + 1 < argv.length && !(argv[i + 1] ?? '').startsWith('-')) i++
      continue
    }
    let text = equals < 0 ? undefined : word.slice(equals + 1)
    if (text === undefined && flag.isSwitch) text = 'true'
    if (text === undefined) {
      i++
      text = argv[i]
    }
    if (text === undefined) problems.push(`${name} needs a value`)
    else if (flag.key === undefined) warnings.push(`${name} is ignored: ${flag.why}`)
    else given.set(flag.key, text)
  }
  return given
}

function toKnownFlags(input: FlatInput): Map<string, KnownFlag> {
  const known = new Map<string, KnownFlag>()
  const add = (long: string | undefined, short: string | undefined, flag: KnownFlag): void => {
    if (long !== undefined) known.set(`--${long}`, flag)
    if (short !== undefined) known.set(`-${short}`, flag)
  }
  for (const ignored of input.ignored ?? []) {
    add(ignored.flag, ignored.short, { key: undefined, isSwitch: ignored.value === 'none', why: ignored.why })
  }
  for (const [key, setting] of Object.entries(input.table)) {
    add(setting.flag, setting.short, { key, isSwitch: setting.type.isSwitch === true, why: '' })
  }
  return known
}

/** ` (did you mean --grpcAddr?)` when only letter case and dashes differ. */
function formatNearest(name: string, known: ReadonlyMap<string, unknown>): string {
  const bare = (text: string): string => text.replace(/[-_]/g, '').toLowerCase()
  for (const candidate of known.keys()) {
    if (bare(candidate) === bare(name)) return ` (did you mean ${candidate}?)`
  }
  return ''
}

/** What Kubernetes puts into every container beside a Service whose name begins like ours. */
const serviceLink =
  /^([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/

function selectUnknownEnv(input: FlatInput): string[] {
  const known = new Set(Object.values(input.table).map((setting) => setting.env))
  for (const name of input.siblingEnv ?? []) known.add(name)
  return Object.entries(input.env)
    .filter(([name, value]) => name.startsWith(input.ownPrefix) && value !== undefined && !known.has(name))
    .filter(([name, value]) => {
      const rest = name.slice(input.ownPrefix.length)
      return !serviceLink.test(rest) && !(/(^|_)PORT$/.test(rest) && /^(tcp|udp|sctp):\/\//.test(value ?? ''))
    })
    .map(([name]) => `${name} is not an environment name that this program knows`)
    .sort()
}
