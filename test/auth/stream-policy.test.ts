// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { createStreamPolicy, type Asker, type StreamPolicyOptions } from '../../src/auth/stream-policy.js'
import { ProtocolError } from '../../src/base/errors.js'
import { parseAccountList } from '../../src/base/service-accounts.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../../src/wire/messages.js'

const by = (...identities: readonly string[]): Asker => ({ secure: true, caller: { identities, source: 'kubernetes' } })
const ztunnel = by('spiffe://cluster.local/ns/istio-system/sa/ztunnel')
const nobody: Asker = { secure: true, caller: undefined }
const plaintext: Asker = { secure: false, caller: undefined }

function outcome(act: () => void): string {
  try {
    act()
    return 'admitted'
  } catch (error) {
    if (error instanceof ProtocolError && error.status === 7) return error.message
    throw error
  }
}

const policy = (more: Partial<StreamPolicyOptions> = {}) =>
  createStreamPolicy({
    checksNode: true,
    trustedAccounts: parseAccountList(''),
    trustedNodeAccounts: parseAccountList(''),
    ...more,
  })

describe('a node that a caller says it is [3.5]', () => {
  const who = 'spiffe://cluster.local/ns/istio-system/sa/ztunnel'
  const refusal = (claimed: string): string => `authorization failed: ${who} may not be a node of ${claimed}`
  test.each<[string, Asker, string, Record<string, unknown>, string]>([
    ['of its own namespace is its own', ztunnel, 'istio-system', {}, 'admitted'],
    ['of another namespace is not', ztunnel, 'a', {}, refusal('a')],
    ['of no namespace is not', ztunnel, '', {}, refusal('')],
    ['with its own account is its own', ztunnel, 'istio-system', { SERVICE_ACCOUNT: 'ztunnel' }, 'admitted'],
    ['with an empty account names none', ztunnel, 'istio-system', { SERVICE_ACCOUNT: '' }, 'admitted'],
    ['with another account is not', ztunnel, 'istio-system', { SERVICE_ACCOUNT: 'x' }, refusal('istio-system/x')],
    [
      'with an account that is no text is not',
      ztunnel,
      'istio-system',
      { SERVICE_ACCOUNT: 7 },
      refusal('istio-system'),
    ],
    ['fits if one of several identities fits', by('x', who), 'istio-system', {}, 'admitted'],
    ['may be in any trust domain', by('spiffe://old/ns/a/sa/b'), 'a', {}, 'admitted'],
    ['is not looked at where nobody asks for proof', nobody, 'a', {}, 'admitted'],
    ['is not looked at in plaintext', plaintext, 'a', {}, 'admitted'],
  ])('%s', (_what, asker, namespace, metadata, expected) => {
    expect(outcome(() => policy().admitNode(asker, { namespace, metadata }))).toBe(expected)
  })

  test('a caller without a SPIFFE id is a node of nobody', () => {
    expect(outcome(() => policy().admitNode(by('x'), { namespace: 'a', metadata: {} }))).toContain('may not be')
  })

  test('is not looked at when that is turned off', () => {
    const node = { namespace: 'a', metadata: {} }
    expect(outcome(() => policy({ checksNode: false }).admitNode(ztunnel, node))).toBe('admitted')
  })
})

describe('addresses, workloads and policies', () => {
  const types = [ADDRESS_TYPE, WORKLOAD_TYPE, AUTHORIZATION_TYPE]
  const other = by('spiffe://cluster.local/ns/a/sa/reader')
  const outcomes = (asker: Asker, more: Partial<StreamPolicyOptions>): readonly string[] =>
    types.map((type) => outcome(() => policy(more).admitType(asker, type)))
  const all = (text: string): readonly string[] => types.map(() => text)
  const names =
    'may not read the mesh here: its account is neither in XDS_TRUSTED_ACCOUNTS nor in CA_TRUSTED_NODE_ACCOUNTS'
  const trusted = parseAccountList('istio-system/ztunnel')

  test('are for every account while no setting names any', () => {
    expect(outcomes(other, {})).toEqual(all('admitted'))
    expect(outcomes(nobody, {})).toEqual(all('admitted'))
  })

  test.each([{ trustedAccounts: trusted }, { trustedNodeAccounts: trusted }])(
    'are for the named accounts alone once there are some: %j',
    (settings) => {
      expect(outcomes(ztunnel, settings)).toEqual(all('admitted'))
      expect(outcomes(other, settings)).toEqual(all(`spiffe://cluster.local/ns/a/sa/reader ${names}`))
    },
  )

  test('are for the accounts of both settings together', () => {
    const both = { trustedAccounts: parseAccountList('a/reader'), trustedNodeAccounts: trusted }
    expect(outcomes(other, both)).toEqual(all('admitted'))
    expect(outcomes(ztunnel, both)).toEqual(all('admitted'))
  })

  test('are for nobody when the setting holds nothing that can be read: it does not fall open', () => {
    expect(outcomes(ztunnel, { trustedNodeAccounts: parseAccountList('ztunnel') })).toEqual(
      all(`spiffe://cluster.local/ns/istio-system/sa/ztunnel ${names}`),
    )
  })

  test('are for nobody without proof on the TLS port, and still for everybody in plaintext', () => {
    expect(outcomes(nobody, { trustedAccounts: trusted })).toEqual(all(`a caller without identity ${names}`))
    expect(outcomes(plaintext, { trustedAccounts: trusted })).toEqual(all('admitted'))
  })

  test('other types are not for proxies and not concerned', () => {
    const strict = policy({ trustedAccounts: trusted })
    expect(outcome(() => strict.admitType(other, 'istio.io/debug/syncz'))).toBe('admitted')
  })

  test('accounts are compared whole', () => {
    for (const name of ['spiffe://cluster.local/ns/istio-system/sa/ztunnel2', 'spiffe://x/ns/istio/sa/ztunnel']) {
      expect(outcomes(by(name), { trustedAccounts: trusted })).toEqual(all(`${name} ${names}`))
    }
  })
})
