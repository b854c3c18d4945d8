// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { createClientCertificate } from '../../src/auth/client-certificate.js'
import type { Verdict } from '../../src/auth/verdict.js'

const own = 'spiffe://cluster.local/ns/a/sa/b'
const refused = (reason: string): Verdict => ({ kind: 'refused', reason })
const proved = (identity: string): Verdict => ({
  kind: 'caller',
  caller: { identities: [identity], source: 'certificate' },
})

test.each<[string, readonly string[], Verdict]>([
  ['no certificate proves nothing', [], { kind: 'absent' }],
  ['one identity of our trust domain is the caller, and no pod with it [2.5]', [own], proved(own)],
  [
    'another trust domain of ours counts as well, written with a dot',
    ['spiffe://old.example/ns/a/sa/b'],
    proved('spiffe://old.example/ns/a/sa/b'),
  ],
  [
    'a foreign trust domain does not',
    ['spiffe://evil/ns/a/sa/b'],
    refused('the certificate is of another trust domain'),
  ],
  ['two identities are none', [own, own], refused('the certificate names more than one identity')],
  ...[
    'https://cluster.local/ns/a/sa/b',
    'SPIFFE://cluster.local/ns/a/sa/b',
    'spiffe://cluster.local/ns/a/sa/b/c',
    '',
  ].map((uri): [string, readonly string[], Verdict] => [
    `"${uri}" is no service account`,
    [uri],
    refused('the certificate names no service account'),
  ]),
])('%s', async (_what, certificateUris, verdict) => {
  const way = createClientCertificate(() => ['cluster.local', 'old@example'])
  const call = { peer: '', secure: true, certificateUris, authorization: undefined, clusterId: undefined }
  expect(await way.judge(call)).toEqual(verdict)
  expect(await way.judge({ ...call, secure: false })).toEqual({ kind: 'absent' })
})
