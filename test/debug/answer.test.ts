// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { createAnswer } from '../../src/debug/answer.js'
import { Directory } from '../../src/debug/directory.js'
import { parseQuestion } from '../../src/wire/question.js'
import { authorization, room } from '../address/objects.js'

const made = room([
  authorization('sent', { action: 'DENY', rules: [{ to: [{ operation: { paths: ['/x'] } }] }] }),
  authorization('custom', { action: 'CUSTOM' }),
])
const ask = (text: string) =>
  createAnswer(text, parseQuestion(text), {
    store: made.address.store,
    directory: new Directory(made.source, () => undefined),
    explainer: made.address,
  }).found

describe('the answer about a policy', () => {
  test('shows what is served and where that is other than it says', () => {
    expect(ask('ns1/sent')).toMatchObject([
      {
        by: 'name ns1/sent',
        policy: { namespace: 'ns1', name: 'sent', action: 'DENY', scope: 'NAMESPACE' },
        why: [
          'from AuthorizationPolicy ns1/sent',
          'ztunnel cannot judge paths: no rule can hold without them, so it denies nothing',
        ],
      },
    ])
  })

  test('that no proxy is told of is why', () => {
    expect(ask('ns1/custom')).toEqual([
      {
        by: 'name ns1/custom',
        policy: { namespace: 'ns1', name: 'custom', action: 'CUSTOM', scope: 'NAMESPACE', resource: null },
        why: ['from AuthorizationPolicy ns1/custom', 'not sent to ztunnel, which does not support action CUSTOM'],
        resource: null,
        version: '',
        aliases: [],
      },
    ])
  })

  test('that does not exist is none', () => {
    expect(ask('ns1/none')).toEqual([])
  })
})
