// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { createTokenReview, type SendReview, type TokenReviewLimits } from '../../src/auth/token-review.js'
import type { Authenticator, Verdict } from '../../src/auth/verdict.js'
import type { Credentials } from '../../src/base/caller.js'
import { Retryable } from '../../src/base/errors.js'
import { FakeClock } from '../support/fake-clock.js'
import { CollectedLog } from '../xds/collected-log.js'
import { TokenIssuer } from './tokens.js'

const ztunnel = { namespace: 'istio-system', account: 'ztunnel' }
const pod = { name: 'ztunnel-a', uid: 'uid-a' }

interface Room {
  readonly clock: FakeClock
  readonly issuer: TokenIssuer
  readonly log: CollectedLog
  /** Audiences that were asked about, one entry a review. */
  readonly asked: string[]
  readonly way: Authenticator
  /** What the API server does from now on. */
  answer: SendReview
}

function createRoom(limits: Partial<TokenReviewLimits> = {}, audiences: readonly string[] = ['istio-ca']): Room {
  const clock = new FakeClock()
  const issuer = new TokenIssuer(() => clock.now())
  const log = new CollectedLog()
  const asked: string[] = []
  const room: Room = {
    clock,
    issuer,
    log,
    asked,
    answer: (review) => Promise.resolve({ status: 201, body: JSON.stringify(issuer.review(JSON.parse(review))) }),
    way: createTokenReview({
      send: async (review, signal) => {
        asked.push(JSON.parse(review).spec.audiences.join())
        return await room.answer(review, signal)
      },
      clock,
      log,
      audiences,
      clusterId: 'Kubernetes',
      trustDomain: () => 'cluster.local',
      limits,
    }),
  }
  return room
}

const call = (token: string, more: Partial<Credentials> = {}): Credentials => ({
  peer: '10.0.0.1:1',
  secure: true,
  certificateUris: [],
  authorization: `Bearer ${token}`,
  clusterId: undefined,
  ...more,
})

const accepted = (more: object = {}): Verdict => ({
  kind: 'caller',
  caller: {
    identities: ['spiffe://cluster.local/ns/istio-system/sa/ztunnel'],
    kubernetes: { namespace: 'istio-system', serviceAccount: 'ztunnel', ...more },
    source: 'kubernetes',
  },
})
const refused = (reason: string): Verdict => ({ kind: 'refused', reason })
const notAccepted = refused('the API server does not accept the token for audience istio-ca')

/** Never answers, but gives up when told to, as a real connection does. */
const silence: SendReview = (_review, signal) =>
  new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))

describe('a token', () => {
  test('of a pod proves the account and the pod', async () => {
    const { issuer, way, asked } = createRoom()
    expect(await way.judge(call(issuer.issue({ ...ztunnel, pod })))).toEqual(
      accepted({ podName: 'ztunnel-a', podUid: 'uid-a' }),
    )
    expect(asked).toEqual(['istio-ca'])
  })

  test('without pod binding proves the account and no pod', async () => {
    const { issuer, way } = createRoom()
    expect(await way.judge(call(issuer.issue(ztunnel)))).toEqual(accepted())
  })

  test('of several audiences passes with ours among them [2.3]', async () => {
    const { issuer, way } = createRoom()
    expect(await way.judge(call(issuer.issue({ ...ztunnel, audiences: ['a', 'istio-ca'] })))).toEqual(accepted())
  })

  test('is asked about for every audience that counts', async () => {
    const { issuer, way, asked } = createRoom({}, ['one', 'two'])
    expect(await way.judge(call(issuer.issue({ ...ztunnel, audiences: ['two'] })))).toEqual(accepted())
    expect(asked).toEqual(['one,two'])
  })

  test('of another audience, an expired one and one that nobody issued are refused', async () => {
    const { issuer, way, clock } = createRoom()
    const tokens = [
      issuer.issue({ ...ztunnel, audiences: ['https://kubernetes.default.svc'] }),
      issuer.issue({ ...ztunnel, expiresAtMs: clock.now() }),
      'garbage',
    ]
    for (const token of tokens) expect(await way.judge(call(token))).toEqual(notAccepted)
  })

  test('never appears in the log or in a reason', async () => {
    const room = createRoom()
    room.answer = () => Promise.resolve({ status: 403, body: '' })
    const failure: unknown = await room.way.judge(call('very.secret.token')).catch((error: unknown) => error)
    expect(JSON.stringify([room.log.records, String(failure)])).not.toContain('secret')
  })
})

describe('the headers of a call', () => {
  test.each<[string, Partial<Credentials>, Verdict]>([
    ['without authorization prove nothing', { authorization: undefined }, { kind: 'absent' }],
    ...['bearer T', 'Istio T', 'Bearer  T', 'Bearer T ', 'Bearer', 'Bearer ', 'BearerT', ''].map(
      (authorization): [string, Partial<Credentials>, Verdict] => [
        `"${authorization}" are no bearer token [2.2]`,
        { authorization },
        refused('the authorization header is not written "Bearer TOKEN"'),
      ],
    ),
    [
      'with a token of megabytes are refused',
      { authorization: `Bearer ${'x'.repeat(20_000)}` },
      refused('the token is too long'),
    ],
    [
      'with the id of another cluster are refused [2.3]',
      { clusterId: 'elsewhere' },
      refused('the clusterid header names a cluster that is not served here'),
    ],
  ])('%s', async (_what, more, verdict) => {
    const { way, asked } = createRoom()
    expect(await way.judge(call('T', more))).toEqual(verdict)
    expect(asked).toEqual([])
  })

  test('with our cluster id or an empty one count as those without', async () => {
    const { way, issuer } = createRoom()
    const token = issuer.issue(ztunnel)
    for (const clusterId of ['Kubernetes', '']) expect(await way.judge(call(token, { clusterId }))).toEqual(accepted())
  })
})

describe('an answer of the API server', () => {
  const groups = ['system:serviceaccounts']
  const user = { username: 'system:serviceaccount:istio-system:ztunnel', groups }
  const good = { authenticated: true, user, audiences: ['istio-ca'] }
  test.each<[string, unknown, Verdict]>([
    ['that says yes is a yes', { status: good }, accepted()],
    ['with an error is a no, whatever else it says', { status: { ...good, error: 'x' } }, notAccepted],
    ['that is not plainly true is a no', { status: { ...good, authenticated: 'true' } }, notAccepted],
    ['without a status is a no', {}, notAccepted],
    ['that is no object is a no', [], notAccepted],
    [
      'of a server that knows no audiences is a no',
      { status: { ...good, audiences: undefined } },
      refused('the token is not confirmed to be for audience istio-ca'),
    ],
    [
      'about other audiences is a no',
      { status: { ...good, audiences: ['other'] } },
      refused('the token is not confirmed to be for audience istio-ca'),
    ],
    ...[
      { username: 'jane', groups },
      { username: 'system:serviceaccount:a', groups },
      { username: 'system:serviceaccount:a:b:c', groups },
      { username: 'system:serviceaccount::b', groups },
      { username: 'x:system:serviceaccount:a:b', groups },
      { username: user.username, groups: ['system:authenticated'] },
      { username: user.username },
    ].map((who): [string, unknown, Verdict] => [
      `about ${JSON.stringify(who)} is no service account`,
      { status: { ...good, user: who } },
      refused('the token is not one of a service account'),
    ]),
    [
      'with a name that would read as another identity is a no',
      { status: { ...good, user: { groups, username: 'system:serviceaccount:a:b/ns/istio-system' } } },
      refused('no identity can be written of the account that the token names'),
    ],
  ])('%s', async (_what, body, verdict) => {
    const room = createRoom()
    room.answer = () => Promise.resolve({ status: 201, body: JSON.stringify(body) })
    expect(await room.way.judge(call('T'))).toEqual(verdict)
  })
})

describe('reviews are spared', () => {
  test('a token that was accepted is not reviewed again for a while', async () => {
    const { way, issuer, clock, asked } = createRoom({ acceptedMs: 10_000 })
    const token = issuer.issue(ztunnel)
    await way.judge(call(token))
    await clock.advance(9_999)
    await way.judge(call(token))
    expect(asked).toHaveLength(1)
    await clock.advance(1)
    issuer.revoke(token)
    expect(await way.judge(call(token))).toEqual(notAccepted)
    expect(asked).toHaveLength(2)
  })

  test('but never beyond its own expiry', async () => {
    const { way, issuer, clock, asked } = createRoom({ acceptedMs: 10_000 })
    const token = issuer.issue({ ...ztunnel, expiresAtMs: clock.now() + 3_000 })
    await way.judge(call(token))
    await clock.advance(3_000)
    expect(await way.judge(call(token))).toEqual(notAccepted)
    expect(asked).toHaveLength(2)
  })

  test('a refusal is remembered for a moment only', async () => {
    const { way, clock, asked } = createRoom({ refusedMs: 1_000 })
    await way.judge(call('T'))
    await way.judge(call('T'))
    expect(asked).toHaveLength(1)
    await clock.advance(1_000)
    await way.judge(call('T'))
    expect(asked).toHaveLength(2)
  })

  test('those who show one token at one time share a review', async () => {
    const { way, issuer, asked } = createRoom()
    const token = issuer.issue(ztunnel)
    const verdicts = await Promise.all(Array.from({ length: 50 }, () => way.judge(call(token))))
    expect(verdicts).toEqual(Array.from({ length: 50 }, () => accepted()))
    expect(asked).toHaveLength(1)
  })

  test('so many are under way at a time, so many wait, more are turned away', async () => {
    const room = createRoom({ mostReviews: 2, mostWaiting: 3 })
    const { answer } = room
    let open = (): void => undefined
    const opened = new Promise<void>((resolve) => (open = resolve))
    room.answer = async (review, signal) => {
      await opened
      return await answer(review, signal)
    }
    const tokens = Array.from({ length: 6 }, () => room.issuer.issue(ztunnel))
    const judged = tokens.map((token) => room.way.judge(call(token)).then(({ kind }) => kind, String))
    await new Promise((resolve) => setImmediate(resolve))
    expect(room.asked).toHaveLength(2)
    open()
    expect(await Promise.all(judged)).toEqual([
      ...Array.from({ length: 5 }, () => 'caller'),
      'Retryable: tokens cannot be checked: the API server is not reachable',
    ])
    expect(room.asked).toHaveLength(5)
  })
})

describe('when the API server is away', () => {
  const outages: [string, SendReview][] = [
    ['cannot be reached', () => Promise.reject(new Retryable('connection refused'))],
    ['answers 503', () => Promise.resolve({ status: 503, body: '' })],
    ['answers 429', () => Promise.resolve({ status: 429, body: '' })],
    ['answers with a page of somebody else', () => Promise.resolve({ status: 200, body: '<html>' })],
  ]

  test.each(outages)('and %s, a stranger is asked to come back, not denied', async (_how, answer) => {
    const room = createRoom()
    room.answer = answer
    await expect(room.way.judge(call('T'))).rejects.toThrow(Retryable)
    expect(room.log.records.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'tokens cannot be reviewed; those that were accepted lately count until they expire'],
    ])
  })

  test.each(outages)('and %s, a token that was accepted lately counts until it expires', async (_how, answer) => {
    const room = createRoom({ acceptedMs: 10_000, outageMs: 3_600_000 })
    const token = room.issuer.issue({ ...ztunnel, expiresAtMs: room.clock.now() + 30 * 60_000 })
    await room.way.judge(call(token))
    room.answer = answer
    await room.clock.advance(10 * 60_000)
    expect(await room.way.judge(call(token))).toEqual(accepted())
    await room.clock.advance(20 * 60_000)
    await expect(room.way.judge(call(token))).rejects.toThrow(Retryable)
  })

  test('a token that does not say when it expires, and one that was accepted long ago, do not', async () => {
    const room = createRoom({ outageMs: 60_000 })
    const endless = room.issuer.issue(ztunnel)
    const old = room.issuer.issue({ ...ztunnel, expiresAtMs: room.clock.now() + 3_600_000 })
    for (const token of [endless, old]) await room.way.judge(call(token))
    room.answer = () => Promise.reject(new Retryable('away'))
    await room.clock.advance(60_000)
    for (const token of [endless, old]) await expect(room.way.judge(call(token))).rejects.toThrow(Retryable)
  })

  test('silence ends after a while, for those who wait for their turn too', async () => {
    const room = createRoom({ timeoutMs: 5_000, mostReviews: 1 })
    room.answer = silence
    const ends = ['A', 'B', 'C'].map((token) => room.way.judge(call(token)).catch(String))
    await room.clock.advance(5_000)
    expect(await Promise.all(ends)).toEqual(
      Array.from({ length: 3 }, () => 'Retryable: tokens cannot be checked: the API server is not reachable'),
    )
  })

  test('it is well again at once when it answers', async () => {
    const room = createRoom({ timeoutMs: 5_000, mostReviews: 1 })
    const { answer } = room
    room.answer = silence
    const first = room.way.judge(call('A')).catch(String)
    await room.clock.advance(5_000)
    await first
    room.answer = answer
    expect(await room.way.judge(call(room.issuer.issue(ztunnel)))).toEqual(accepted())
  })

  test('and a process that may not ask for reviews says so in its log, and nobody passes, known or not', async () => {
    const room = createRoom({ acceptedMs: 0 })
    const token = room.issuer.issue({ ...ztunnel, expiresAtMs: room.clock.now() + 3_600_000 })
    await room.way.judge(call(token))
    room.answer = () => Promise.resolve({ status: 403, body: '' })
    await expect(room.way.judge(call(token))).rejects.toThrow(
      'tokens cannot be checked: the API server refused to review one',
    )
    expect(room.log.records).toEqual([
      { level: 'error', fields: { status: 403 }, message: 'the API server does not let this process review tokens' },
    ])
  })
})
