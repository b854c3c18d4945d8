// SPDX-License-Identifier: Apache-2.0
import { connect as connectTcp } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { afterEach, describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import { formatCaller } from '../../src/xds/caller.js'
import { TestAuthority, type LeafOptions } from '../support/certificates.js'
import type { XdsClient, XdsClientOptions } from '../support/xds-client.js'
import { StreamRoom, toNode, toTls, ztunnel } from './stream-room.js'
import type { TokenClaims } from './tokens.js'

let room: StreamRoom | undefined
afterEach(async () => await room?.close())

async function open(env: Readonly<Record<string, string>> = {}): Promise<StreamRoom> {
  room = await StreamRoom.open(env)
  return room
}

type Outcome = { readonly resources: readonly number[] } | { readonly code: number; readonly message: string }

/** What becomes of a client that asks for this type: the sizes of its answers, or the end of its stream. */
async function outcome(client: XdsClient, type = 'Address'): Promise<Outcome> {
  client.send({ type })
  await client.until(() => client.received > 0, 'an answer or the end')
  return client.ended ?? { resources: client.responses.map((response) => response.resources.length) }
}

const all: Outcome = { resources: [6] }
const own = 'spiffe://cluster.local/ns/istio-system/sa/ztunnel'
const notAccepted = 'authentication failed: token: the API server does not accept the token for audience istio-ca'
const noProof = 'authentication failed: the call carries neither a bearer token nor a client certificate'

describe('a token on the TLS port', () => {
  test.each<[string, TokenClaims, Outcome]>([
    ['of a ztunnel opens a stream', ztunnel, all],
    ['of several audiences, ours among them, does', { ...ztunnel, audiences: ['x', 'istio-ca'] }, all],
    [
      'without pod binding does: it proves the account, and a stream asks for no more',
      { namespace: 'istio-system', account: 'ztunnel' },
      all,
    ],
    ['of another audience does not', { ...ztunnel, audiences: ['x'] }, { code: 16, message: notAccepted }],
    ['that has expired does not', { ...ztunnel, expiresAtMs: Date.now() - 1 }, { code: 16, message: notAccepted }],
    [
      'of another namespace is no node of ours',
      { namespace: 'a', account: 'ztunnel' },
      {
        code: 7,
        message: 'authorization failed: spiffe://cluster.local/ns/a/sa/ztunnel may not be a node of istio-system',
      },
    ],
  ])('%s', async (_what, claims, expected) => {
    const { connect } = await opened()
    expect(await outcome(connect(claims))).toEqual(expected)
  })

  test('of a pod on another node has the same addresses: they are those of the mesh', async () => {
    const { connect } = await opened()
    expect(await outcome(connect(ztunnel, { node: toNode({ NODE_NAME: 'elsewhere' }) }))).toEqual(all)
  })

  test('is judged before the node is looked at [3.5]', async () => {
    const { client } = await opened()
    const asking = client({ headers: { authorization: 'Bearer garbage' } })
    asking.send({ type: 'Address', node: null })
    expect(await asking.untilEnded()).toEqual({ code: 16, message: notAccepted })
  })

  test('is needed, on both kinds of streams, before anything is said', async () => {
    const { client } = await opened()
    for (const sotw of [false, true]) {
      const asking = client({ sotw })
      expect(await asking.untilEnded()).toEqual({ code: 16, message: noProof })
      expect(asking.received).toBe(0)
    }
  })

  test('is reviewed once for many streams', async () => {
    const { room: here } = await opened()
    const headers = { authorization: `Bearer ${here.issuer.issue(ztunnel)}` }
    const clients = Array.from({ length: 20 }, () => here.client({ headers }))
    expect(await Promise.all(clients.map((client) => outcome(client)))).toEqual(clients.map(() => all))
    expect(here.reviews()).toBe(1)
  })

  test('that cannot be reviewed now is to be shown again, and is welcome then', async () => {
    const { room: here, connect } = await opened()
    here.api.api({ kind: 'TokenReview', answer: 503 })
    const asking = connect()
    expect(await asking.untilEnded()).toEqual({
      code: 14,
      message: 'tokens cannot be checked: the API server is not reachable',
    })
    expect(here.log.records.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      'tokens cannot be reviewed; those that were accepted lately count until they expire',
    ])
    expect(await outcome(connect())).toEqual(all)
  })

  test('may be shown in plaintext, where nobody looks at it, or must be, when the settings say so', async () => {
    const { room: here } = await opened()
    expect(await outcome(here.plaintextClient({ headers: { authorization: 'Bearer garbage' } }))).toEqual(all)
    expect(here.reviews()).toBe(0)
    await here.close()
    const strict = await open({ XDS_AUTH_PLAINTEXT: 'true' })
    expect(await strict.plaintextClient().untilEnded()).toEqual({ code: 16, message: noProof })
    const headers = { authorization: `Bearer ${strict.issuer.issue(ztunnel)}` }
    expect(await outcome(strict.plaintextClient({ headers }))).toEqual(all)
  })
})

interface Opened {
  readonly room: StreamRoom
  readonly connect: (claims?: TokenClaims, more?: Partial<XdsClientOptions>) => XdsClient
  readonly client: (options: Partial<XdsClientOptions>) => XdsClient
}

async function opened(env: Readonly<Record<string, string>> = {}): Promise<Opened> {
  const here = await open(env)
  return {
    room: here,
    connect: (claims, more) => here.connect(claims, more),
    client: (options) => here.client(options),
  }
}

describe('accounts that are named', () => {
  const reader: TokenClaims = { namespace: 'a', account: 'reader' }
  const refusal = {
    code: 7,
    message:
      'spiffe://cluster.local/ns/a/sa/reader may not read the mesh here: its account is neither in XDS_TRUSTED_ACCOUNTS nor in CA_TRUSTED_NODE_ACCOUNTS',
  }
  const asReader = { node: toNode({ NAMESPACE: 'a' }, 'a') }

  test.each([{ XDS_TRUSTED_ACCOUNTS: 'istio-system/ztunnel' }, { CA_TRUSTED_NODE_ACCOUNTS: 'istio-system/ztunnel' }])(
    'have the mesh to themselves on the TLS port: %j',
    async (env) => {
      const { connect, room: here } = await opened(env)
      for (const type of ['Address', 'Workload', 'Authorization']) {
        expect(await outcome(connect(reader, asReader), type)).toEqual(refusal)
        expect(await outcome(connect(reader, { ...asReader, sotw: true }), type)).toEqual(refusal)
      }
      expect(await outcome(connect())).toEqual(all)
      expect(await outcome(here.plaintextClient(asReader))).toEqual(all)
    },
  )

  test('are all accounts while none is', async () => {
    const { connect } = await opened()
    expect(await outcome(connect(reader, asReader))).toEqual(all)
  })

  test('do not fall open when nobody is asked for proof', async () => {
    const { client } = await opened({ XDS_AUTH: 'false', CA_TRUSTED_NODE_ACCOUNTS: 'istio-system/ztunnel' })
    expect(await outcome(client({}))).toMatchObject({ code: 7 })
  })
})

describe('headers that only the front may write', () => {
  const forged = formatCaller({ address: '127.0.0.1:1', secure: true, certificateUris: [own] })
  const headers = { 'x-addressd-caller': forged }

  test('prove nothing when a client writes them', async () => {
    const { client, room: here } = await opened()
    for (const sotw of [false, true]) {
      expect(await client({ headers, sotw }).untilEnded()).toEqual({ code: 16, message: noProof })
    }
    // In plaintext nobody is identified: debug pages stay closed, and no proof is taken from the header either.
    expect(await outcome(here.plaintextClient({ headers, sotw: true }), 'istio.io/debug/syncz')).toEqual({
      resources: [0],
    })
  })
})

describe('a client certificate', () => {
  const connectAs = async (
    here: StreamRoom,
    options: LeafOptions,
    more: Partial<XdsClientOptions> & { readonly of?: TestAuthority } = {},
  ): Promise<XdsClient> => {
    const { of = here.authority, ...rest } = more
    return here.client({ certificate: await of.issue({ usages: ['client'], ...options }), ...rest })
  }
  /** The connection ends without an answer to anything. */
  const cut = { code: -1, message: '' }

  test('of our root proves the one identity that it names', async () => {
    const here = await open()
    expect(await outcome(await connectAs(here, { uris: [own] }))).toEqual(all)
    const node = toNode({ NAMESPACE: 'a' })
    expect(await outcome(await connectAs(here, { uris: [own] }, { node }))).toMatchObject({ code: 7 })
    expect(here.reviews()).toBe(0)
  })

  test.each<[string, LeafOptions]>([
    ['two identities', { uris: [own, 'spiffe://cluster.local/ns/a/sa/b'] }],
    ['no identity', { dns: ['ztunnel'] }],
    ['a foreign trust domain', { uris: ['spiffe://evil/ns/istio-system/sa/ztunnel'] }],
    ['a host name that looks like two names', { dns: [`x, URI:${own}, DNS:y`] }],
  ])('with %s proves nothing', async (_what, options) => {
    const here = await open()
    const asking = await connectAs(here, options)
    expect((await asking.untilEnded()).code).toBe(16)
  })

  test.each<[string, LeafOptions]>([
    ['has expired', { uris: [own], untilMs: -1_000 }],
    ['is not valid yet', { uris: [own], fromMs: 3_600_000 }],
    ['is one for servers', { uris: [own], usages: ['server'] }],
  ])('that %s costs the connection', async (_what, options) => {
    const here = await open()
    expect(await (await connectAs(here, options)).untilEnded()).toEqual(cut)
  })

  test('of an unknown root costs the connection, whatever token comes along', async () => {
    const here = await open()
    const of = await TestAuthority.create()
    const headers = { authorization: `Bearer ${here.issuer.issue(ztunnel)}` }
    const asking = await connectAs(here, { uris: [own] }, { of, headers })
    expect(await asking.untilEnded()).toEqual(cut)
    expect(here.log.records.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      'client certificate does not verify; connection refused',
    ])
    expect(here.reviews()).toBe(0)
    expect(await outcome(here.connect())).toEqual(all)
  })
})

describe('the TLS port', () => {
  test('says nothing to a client that speaks plaintext, and lives', async () => {
    const here = await open()
    const socket = connectTcp(here.secure.port, '127.0.0.1')
    const heard: Buffer[] = []
    socket.on('data', (chunk: Buffer) => heard.push(chunk))
    socket.on('error', () => undefined)
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    await new Promise((resolve) => socket.once('close', resolve))
    // At most an alert of TLS, never a frame of HTTP/2.
    expect(Buffer.concat(heard).length).toBeLessThan(16)
    expect(await outcome(here.connect())).toEqual(all)
  })

  test('is refused by a client that does not know its root, and lives', async () => {
    const here = await open()
    const other = await TestAuthority.create()
    expect(await here.client({ ca: other.cert }).untilEnded()).toEqual({ code: -1, message: '' })
    expect(await here.client({ serverName: 'somebody.else' }).untilEnded()).toEqual({ code: -1, message: '' })
    expect(await outcome(here.connect())).toEqual(all)
  })

  test('takes new certificates while connections are open: those go on, new ones see the new root', async () => {
    const here = await open()
    const before = here.connect()
    expect(await outcome(before)).toEqual(all)
    const old = await here.authority.issue({ uris: [own] })
    const next = await TestAuthority.create('next root')
    here.secure.setTls(await toTls(next))

    expect(await here.client({}).untilEnded()).toEqual({ code: -1, message: '' })
    expect(await here.client({ ca: next.cert, certificate: old }).untilEnded()).toEqual({ code: -1, message: '' })
    expect(await outcome(here.connect(ztunnel, { ca: next.cert }))).toEqual(all)
    const certificate = await next.issue({ uris: [own] })
    expect(await outcome(here.client({ ca: next.cert, certificate }))).toEqual(all)

    before.send({ type: 'Workload' })
    await before.receivedAtLeast(2)
    expect(before.ended).toBeUndefined()
  })

  test('keeps what it has when new certificates are no good', async () => {
    const here = await open()
    const tls = await toTls(here.authority)
    const { key } = await here.authority.issue({ dns: ['localhost'] })
    for (const bad of [
      { ...tls, key },
      { ...tls, cert: 'x' },
    ]) {
      expect(() => here.secure.setTls(bad)).toThrow(InvalidInput)
    }
    expect(await outcome(here.connect())).toEqual(all)
  })

  test('resumes no session: each connection proves itself anew', async () => {
    const here = await open()
    const certificate = await here.authority.issue({ uris: [own] })
    const options = { port: here.secure.port, host: '127.0.0.1', servername: 'localhost', ca: here.authority.cert }
    const dial = (session?: Buffer): TLSSocket =>
      connectTls({ ...options, ...certificate, ALPNProtocols: ['h2'], ...(session && { session }) })
    const first = dial()
    const sessions: Buffer[] = []
    first.on('session', (session: Buffer) => sessions.push(session))
    // The server's settings: by then its tickets, if there were any, have arrived.
    await new Promise((resolve) => first.once('data', resolve))
    first.destroy()
    const second = dial(sessions.at(-1))
    await new Promise((resolve) => second.once('data', resolve))
    expect(second.isSessionReused()).toBe(false)
    second.destroy()
  })
})
