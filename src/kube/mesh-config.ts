// SPDX-License-Identifier: Apache-2.0
// The text of the mesh configuration (YAML) and the few fields of it that answers depend on. Unknown fields are passed over. Pure; mesh.ts keeps it up to date.

import { InvalidInput, formatError } from '../base/errors.js'
import type { Labels, LabelSelectorRecord } from './records.js'
import { parseYaml } from './yaml.js'

/** Name of the ConfigMap that holds the mesh's settings, for a revision of the control plane. */
export function formatMeshConfigName(revision: string): string {
  return revision === '' || revision === 'default' ? 'istio' : `istio-${revision}`
}

export type EntryVisibility = 'NONE' | 'NAMESPACE' | 'PUBLIC'

export interface VisibilityPolicy {
  readonly visibility: EntryVisibility
  /** All must hold. `undefined` in place of a selector: a rule of a kind that is not known, which never holds. */
  readonly rules: readonly (LabelSelectorRecord | undefined)[]
}

export interface VisibilityConfig {
  readonly defaultVisibility: EntryVisibility
  /** In order: the first that fits decides. */
  readonly policies: readonly VisibilityPolicy[]
}

export interface MeshConfig {
  readonly trustDomain: string
  readonly rootNamespace: string
  readonly discoverySelectors: readonly LabelSelectorRecord[]
  /** Undefined: not configured, every entry is public. */
  readonly serviceEntryVisibility: VisibilityConfig | undefined
}

export const defaultMeshConfig: MeshConfig = {
  trustDomain: 'cluster.local',
  rootNamespace: 'istio-system',
  discoverySelectors: [],
  serviceEntryVisibility: undefined,
}

/** Reads the text. Throws InvalidInput, naming the field, when it is no YAML or a field that is read has the wrong type. Selectors are not judged here. */
export function parseMeshConfig(text: string): MeshConfig {
  let value: unknown
  try {
    value = parseYaml(text, { version: '1.1', uniqueKeys: false, logLevel: 'error' })
  } catch (error) {
    throw new InvalidInput(`mesh configuration is not YAML: ${formatError(error)}`, error)
  }
  const mesh = new Field(value ?? {}, '', 'mesh configuration')
  const visibility = mesh.below('serviceEntryVisibility')
  return {
    trustDomain: checkTrustDomain(mesh.below('trustDomain')?.text() ?? defaultMeshConfig.trustDomain),
    rootNamespace: mesh.below('rootNamespace')?.text() ?? defaultMeshConfig.rootNamespace,
    discoverySelectors: (mesh.below('discoverySelectors')?.items() ?? []).map(toSelector),
    serviceEntryVisibility: visibility === undefined ? undefined : toVisibilityConfig(visibility),
  }
}

function toVisibilityConfig(config: Field): VisibilityConfig {
  return {
    defaultVisibility: toVisibility(config.below('defaultVisibility')),
    policies: (config.below('policies')?.items() ?? []).map((policy) => ({
      visibility: toVisibility(policy.below('visibility')),
      rules: (policy.below('matchingRules')?.items() ?? []).map((rule) => {
        const selector = rule.below('namespaceSelector')
        return selector === undefined ? undefined : toSelector(selector)
      }),
    })),
  }
}

const visibilities: readonly (readonly [name: string, means: EntryVisibility])[] = [
  ['VISIBILITY_UNSPECIFIED', 'PUBLIC'],
  ['NONE', 'NONE'],
  ['NAMESPACE', 'NAMESPACE'],
  ['PUBLIC', 'PUBLIC'],
]

/** A name or a number of the enum; unspecified is public. */
function toVisibility(field: Field | undefined): EntryVisibility {
  if (field === undefined) return 'PUBLIC'
  const known = visibilities.find(([name], number) => field.value === name || field.value === number)
  if (known === undefined) throw field.refuse('a visibility')
  return known[1]
}

/** Kubernetes' LabelSelector from parsed YAML; null is the empty one. Throws InvalidInput that begins with `what`. Whether it can be judged is not looked at. */
export function toLabelSelector(value: unknown, what: string): LabelSelectorRecord {
  return toSelector(new Field(value ?? {}, '', what))
}

function toSelector(selector: Field): LabelSelectorRecord {
  return {
    matchLabels: selector.below('matchLabels')?.texts(),
    matchExpressions: (selector.below('matchExpressions')?.items() ?? []).map((expression) => ({
      key: expression.below('key')?.text() ?? '',
      operator: expression.below('operator')?.text() ?? '',
      values: (expression.below('values')?.items() ?? []).map((value) => value.text()),
    })),
  }
}

const dnsLabels = /^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*\.?$/

function checkTrustDomain(text: string): string {
  if (text.length > 255 || !dnsLabels.test(text))
    throw new InvalidInput(`mesh configuration: trustDomain "${text}" is not made of DNS labels`)
  return text
}

/** One value of the document with the way to it. Objects may spell a field in camel case or in snake case; null is absent. */
class Field {
  constructor(
    readonly value: unknown,
    private readonly path: string,
    private readonly document: string,
  ) {}

  refuse(wanted: string): InvalidInput {
    const what = this.path === '' ? 'it' : this.path
    return new InvalidInput(`${this.document}: ${what} must be ${wanted}`)
  }

  below(name: string): Field | undefined {
    const map = this.#map()
    const snake = name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)
    const value = (Object.hasOwn(map, name) ? map[name] : undefined) ?? (Object.hasOwn(map, snake) ? map[snake] : null)
    return value === null || value === undefined
      ? undefined
      : new Field(value, this.path === '' ? name : `${this.path}.${name}`, this.document)
  }

  text(): string {
    if (typeof this.value !== 'string') throw this.refuse('a text')
    return this.value
  }

  items(): readonly Field[] {
    if (!Array.isArray(this.value)) throw this.refuse('a list')
    return this.value.map((item: unknown, i) => new Field(item, `${this.path}[${i}]`, this.document))
  }

  texts(): Labels {
    const map = this.#map()
    return Object.fromEntries(
      Object.entries(map)
        .filter(([, value]) => value !== null)
        .map(([key, value]) => [key, new Field(value, `${this.path}.${key}`, this.document).text()]),
    )
  }

  #map(): Readonly<Record<string, unknown>> {
    if (typeof this.value !== 'object' || this.value === null || Array.isArray(this.value))
      throw this.refuse('an object')
    return this.value as Readonly<Record<string, unknown>>
  }
}
