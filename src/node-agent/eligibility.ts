// SPDX-License-Identifier: Apache-2.0
// Which pods belong to the mesh, by labels, annotations and settings alone. Pure; what is done about it is decided elsewhere.

import { parse } from 'yaml'
import { InvalidInput, formatError } from '../base/errors.js'
import { toLabelSelector } from '../kube/mesh-config.js'
import { labelOf, type LabelSelectorRecord, type Labels, type PodRecord } from '../kube/records.js'
import { checkSelector, isSelected } from '../kube/selectors.js'

/** Both parts must match; an empty one matches everything. */
export interface EnablementSelector {
  readonly pod: LabelSelectorRecord
  readonly namespace: LabelSelectorRecord
}

/** A namespace as eligibility sees it. */
export interface NamespaceView {
  readonly name: string
  readonly labels: Labels | undefined
  /** Named in the agent's settings as one to leave alone. */
  readonly excluded: boolean
  /** The mesh's discovery selectors let it in: the control plane serves it. */
  readonly discovered: boolean
}

export type Outside =
  'unknown-namespace' | 'host-network' | 'sidecar' | 'not-selected' | 'excluded-namespace' | 'undiscovered-namespace'

/** `selected`: the enablement selectors' own word, whatever else keeps the pod out. */
export type Verdict =
  { readonly eligible: true } | { readonly eligible: false; readonly why: Outside; readonly selected: boolean }

export const annotationKeys = {
  sidecar: 'sidecar.istio.io/status',
  /** On the mirror of a static pod: the uid that the node knows it by. */
  configHash: 'kubernetes.io/config.hash',
} as const

/**
 * Reads the list of `{podSelector, namespaceSelector}`; an empty text or list matches nothing. Throws InvalidInput, naming the entry, for what is no
 * such list or what Kubernetes would refuse as a selector.
 */
export function parseEnablementSelectors(text: string): readonly EnablementSelector[] {
  let value: unknown
  try {
    value = parseText(text)
  } catch (error) {
    throw new InvalidInput(`the enablement selectors are not YAML: ${formatError(error)}`, error)
  }
  if (value === null || value === undefined) return []
  if (!Array.isArray(value)) throw new InvalidInput('the enablement selectors must be a list')
  return value.map((item: unknown, i) => {
    const what = `enablement selector ${i + 1}`
    const entry = item ?? {}
    if (typeof entry !== 'object' || Array.isArray(entry)) throw new InvalidInput(`${what} must be an object`)
    refuseOthers(entry, ['podSelector', 'namespaceSelector'], what)
    const { podSelector, namespaceSelector } = entry as { podSelector?: unknown; namespaceSelector?: unknown }
    return {
      pod: toCheckedSelector(podSelector, `${what}, podSelector`),
      namespace: toCheckedSelector(namespaceSelector, `${what}, namespaceSelector`),
    }
  })
}

/** Mostly it is JSON, as the chart and the default have it, and that is read many times faster. Throws. */
function parseText(text: string): unknown {
  if (text.startsWith('[')) {
    try {
      return JSON.parse(text)
    } catch {
      // YAML has such lists, too.
    }
  }
  return parse(text, { version: '1.1', uniqueKeys: false, logLevel: 'error' })
}

/** A misspelt key would be an absent selector, and that one matches every pod of the node. */
function refuseOthers(value: object, known: readonly string[], what: string): void {
  const other = Object.keys(value).find((key) => !known.includes(key))
  if (other !== undefined) throw new InvalidInput(`${what}: ${JSON.stringify(other)} is none of ${known.join(', ')}`)
}

function toCheckedSelector(value: unknown, what: string): LabelSelectorRecord {
  if (typeof value === 'object' && value !== null) refuseOthers(value, ['matchLabels', 'matchExpressions'], what)
  const selector = toLabelSelector(value, what)
  try {
    checkSelector(selector)
  } catch (error) {
    throw new InvalidInput(`${what}: ${formatError(error)}`, error)
  }
  return selector
}

/** What is asked of a pod: `undefined` in place of the namespace means that it is not known. */
export function toVerdict(
  pod: Pick<PodRecord, 'labels' | 'annotations' | 'hostNetwork'>,
  namespace: NamespaceView | undefined,
  selectors: readonly EnablementSelector[],
): Verdict {
  if (namespace === undefined) return { eligible: false, why: 'unknown-namespace', selected: false }
  if (pod.hostNetwork) return { eligible: false, why: 'host-network', selected: false }
  if (labelOf(pod.annotations, annotationKeys.sidecar) !== undefined) {
    return { eligible: false, why: 'sidecar', selected: false }
  }
  const selected = selectors.some((s) => isSelected(s.pod, pod.labels) && isSelected(s.namespace, namespace.labels))
  if (!selected) return { eligible: false, why: 'not-selected', selected }
  if (namespace.excluded) return { eligible: false, why: 'excluded-namespace', selected }
  if (!namespace.discovered) return { eligible: false, why: 'undiscovered-namespace', selected }
  return { eligible: true }
}

/** Some selector asks for this very namespace, by a condition on its labels. */
export function isNamespaceSelected(labels: Labels | undefined, selectors: readonly EnablementSelector[]): boolean {
  return selectors.some(({ namespace }) => !isEmptySelector(namespace) && isSelected(namespace, labels))
}

function isEmptySelector({ matchLabels, matchExpressions }: LabelSelectorRecord): boolean {
  return Object.keys(matchLabels ?? {}).length === 0 && matchExpressions.length === 0
}

/** No selector, or one of them fits. They must be valid. */
export function isDiscovered(labels: Labels | undefined, anyOf: readonly LabelSelectorRecord[]): boolean {
  return anyOf.length === 0 || anyOf.some((selector) => isSelected(selector, labels))
}

const sentences: Readonly<Record<Outside, string>> = {
  'unknown-namespace': 'its namespace is not known (yet)',
  'host-network': 'it uses the network of its node',
  sidecar: `it has a sidecar (annotation ${annotationKeys.sidecar})`,
  'not-selected': 'neither its labels nor those of its namespace ask for it',
  'excluded-namespace': 'its namespace is excluded by the setting EXCLUDE_NAMESPACES',
  'undiscovered-namespace': 'its namespace is left out by the discoverySelectors of the mesh',
}

/** For people: goes on from "the pod is not part of the mesh: ". */
export function formatOutside(why: Outside): string {
  return sentences[why]
}
