// SPDX-License-Identifier: Apache-2.0
// Label selectors: the plain map of Services and policies, and Kubernetes' LabelSelector with its expressions. Pure.

import { InvalidInput } from '../base/errors.js'
import { labelOf, type Labels, type LabelSelectorRecord } from './records.js'

/** Every pair of the selector is among the labels. An empty selector is a subset of anything: whoever means "selects nobody" asks first. */
export function isSubset(selector: Labels, labels: Labels | undefined): boolean {
  for (const key in selector) if (labelOf(labels, key) !== selector[key]) return false
  return true
}

/** Judges labels by a selector that checkSelector let pass. An empty selector selects everything. */
export function isSelected(selector: LabelSelectorRecord, labels: Labels | undefined): boolean {
  if (selector.matchLabels !== undefined && !isSubset(selector.matchLabels, labels)) return false
  return selector.matchExpressions.every(({ key, operator, values }) => {
    const value = labelOf(labels, key)
    switch (operator) {
      case 'In':
        return value !== undefined && values.includes(value)
      case 'NotIn':
        return value === undefined || !values.includes(value)
      case 'Exists':
        return value !== undefined
      default:
        return value === undefined
    }
  })
}

/** Throws InvalidInput when Kubernetes would not accept the selector: unknown operator, values missing or too many, illegal key or value. */
export function checkSelector(selector: LabelSelectorRecord): void {
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    checkKey(key)
    checkValue(value)
  }
  for (const { key, operator, values } of selector.matchExpressions) {
    checkKey(key)
    const wanted = wantsValues[operator]
    if (wanted === undefined || !Object.hasOwn(wantsValues, operator))
      throw new InvalidInput(
        `label selector on "${key}": operator "${operator}" is none of In, NotIn, Exists, DoesNotExist`,
      )
    if (wanted !== values.length > 0)
      throw new InvalidInput(
        `label selector on "${key}": operator ${operator} ${wanted ? 'needs values' : 'takes no values'}`,
      )
    for (const value of values) checkValue(value)
  }
}

/** True when the selector can be judged by isSelected. */
export function isValidSelector(selector: LabelSelectorRecord): boolean {
  try {
    checkSelector(selector)
    return true
  } catch (error) {
    if (error instanceof InvalidInput) return false
    throw error
  }
}

const wantsValues: Readonly<Record<string, boolean>> = { In: true, NotIn: true, Exists: false, DoesNotExist: false }
const word = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

function checkKey(key: string): void {
  const slash = key.indexOf('/')
  const prefix = key.slice(0, Math.max(slash, 0))
  const name = key.slice(slash + 1)
  const prefixFits = slash < 0 || (prefix.length <= 253 && subdomain.test(prefix))
  if (!prefixFits || name.length > 63 || !word.test(name))
    throw new InvalidInput(`label selector: "${key}" is no label key`)
}

function checkValue(value: string): void {
  if (value !== '' && (value.length > 63 || !word.test(value)))
    throw new InvalidInput(`label selector: "${value}" is no label value`)
}
