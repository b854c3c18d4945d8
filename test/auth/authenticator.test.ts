// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { proveCaller } from '../../src/auth/authenticator.js'
import { absent, refuse, type Authenticator, type Verdict } from '../../src/auth/verdict.js'
import type { Caller } from '../../src/base/caller.js'
import { ProtocolError, Retryable } from '../../src/base/errors.js'

const call = { peer: '', secure: true, certificateUris: [], authorization: undefined, clusterId: undefined }
const caller = (name: string): Caller => ({ identities: [name], source: 'local' })

function ways(...verdicts: readonly (Verdict | Error)[]): { readonly all: Authenticator[]; readonly asked: number[] } {
  const asked: number[] = []
  const all = verdicts.map((verdict, i) => ({
    name: `way ${i}`,
    judge: (): Promise<Verdict> => {
      asked.push(i)
      return verdict instanceof Error ? Promise.reject(verdict) : Promise.resolve(verdict)
    },
  }))
  return { all, asked }
}

test('the first way that succeeds wins, and no other is asked after it', async () => {
  const { all, asked } = ways(
    absent,
    refuse('bad'),
    new Retryable('away'),
    { kind: 'caller', caller: caller('a') },
    { kind: 'caller', caller: caller('b') },
  )
  expect(await proveCaller(all, call)).toEqual(caller('a'))
  expect(asked).toEqual([0, 1, 2, 3])
})

test.each<[string, readonly (Verdict | Error)[], number, string]>([
  [
    'nothing to judge is no caller',
    [absent],
    16,
    'authentication failed: the call carries neither a bearer token nor a client certificate',
  ],
  [
    'no way at all is no caller',
    [],
    16,
    'authentication failed: the call carries neither a bearer token nor a client certificate',
  ],
  [
    'refusals are told with their reasons',
    [refuse('one'), absent, refuse('two')],
    16,
    'authentication failed: way 0: one; way 2: two',
  ],
  [
    'who could not be judged is to come back, whatever others refused',
    [new Retryable('away'), refuse('bad')],
    14,
    'away',
  ],
])('%s', async (_what, verdicts, status, message) => {
  await expect(proveCaller(ways(...verdicts).all, call)).rejects.toEqual(new ProtocolError(message, status))
  await expect(proveCaller(ways(...verdicts).all, call)).rejects.toMatchObject({ status, message })
})

test('a fault in a way is no refusal: it passes through', async () => {
  const fault = new TypeError('a bug')
  await expect(proveCaller(ways(fault, { kind: 'caller', caller: caller('a') }).all, call)).rejects.toBe(fault)
})
