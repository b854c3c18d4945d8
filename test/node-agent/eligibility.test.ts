// SPDX-License-Identifier: Apache-2.0
// Enablement selectors as text, and the verdicts that come of them.

import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import {
  formatOutside,
  isNamespaceSelected,
  parseEnablementSelectors,
  toVerdict,
} from '../../src/node-agent/eligibility.js'
import { ambient, chartSelectors, makePod } from '../support/node-room.js'

describe('the text of the selectors', () => {
  test('nothing, null and an empty list match nothing', () => {
    for (const text of ['', 'null', '[]']) expect(parseEnablementSelectors(text)).toEqual([])
  })

  test('what is no list of selectors, or would not compile, is refused by its place', () => {
    for (const text of ['a: b', '- 1', '- podSelector: [a]', '- podSelector: {matchLabels: {a: 1}}', '{'])
      expect(() => parseEnablementSelectors(text)).toThrow(InvalidInput)
    expect(() =>
      parseEnablementSelectors('- {}\n- namespaceSelector: {matchExpressions: [{key: a, operator: Bogus}]}'),
    ).toThrow(/^enablement selector 2, namespaceSelector: .*Bogus/)
  })

  test('a key that is misspelt is refused: left out, it would match every pod', () => {
    const texts = {
      '- podSelecter: {}': 'enablement selector 1: "podSelecter" is none of podSelector, namespaceSelector',
      '- podSelector: {matchLabel: {a: b}}':
        'enablement selector 1, podSelector: "matchLabel" is none of matchLabels, matchExpressions',
    }
    for (const [text, message] of Object.entries(texts)) {
      expect(() => parseEnablementSelectors(text)).toThrow(new InvalidInput(message))
    }
  })

  test('an empty entry matches everything, one for namespaces alone every pod in them', () => {
    const view = { name: 'shop', labels: ambient, excluded: false, discovered: true }
    const verdictBy = (text: string): boolean =>
      toVerdict(makePod('web'), view, parseEnablementSelectors(text)).eligible
    expect(verdictBy('- {}')).toBe(true)
    expect(verdictBy('- namespaceSelector: {matchLabels: {istio.io/dataplane-mode: ambient}}')).toBe(true)
    expect(verdictBy('- namespaceSelector: {matchLabels: {istio.io/dataplane-mode: other}}')).toBe(false)
  })
})

test('a namespace is selected only by a selector that asks for its labels', () => {
  const selectors = parseEnablementSelectors(chartSelectors)
  expect(isNamespaceSelected(ambient, selectors)).toBe(true)
  expect(isNamespaceSelected(undefined, selectors)).toBe(false)
})

test('each reason to stay outside has a sentence of its own', () => {
  const reasons = [
    'unknown-namespace',
    'host-network',
    'sidecar',
    'not-selected',
    'excluded-namespace',
    'undiscovered-namespace',
  ] as const
  expect(new Set(reasons.map(formatOutside)).size).toBe(reasons.length)
})
