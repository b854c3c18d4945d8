// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { createDebugAccess, type DebugAccessOptions } from '../../src/auth/debug-access.js'
import type { Credentials } from '../../src/base/caller.js'
import { ProtocolError } from '../../src/base/errors.js'
import { createDebugRoutes } from '../../src/debug/routes.js'
import { createShop, makeClient } from '../ctl/room.js'

const access = (more: Partial<DebugAccessOptions> = {}) =>
  createDebugAccess({
    systemNamespace: 'istio-system',
    byNamespace: true,
    allowedNamespaces: new Set(['ops']),
    prove: ({ authorization }: Credentials) => {
      const [, namespace] = /^Bearer of (.+)$/.exec(authorization ?? '') ?? []
      if (namespace === 'outage') return Promise.reject(new ProtocolError('away', 14))
      if (namespace === undefined) return Promise.reject(new ProtocolError('no', 16))
      return Promise.resolve({ identities: [`spiffe://cluster.local/ns/${namespace}/sa/x`], source: 'kubernetes' })
    },
    ...more,
  })

const from = (authorization?: string, local = false) => ({
  headers: authorization === undefined ? {} : { authorization },
  remoteAddress: '10.0.0.1',
  local,
})
const refused = (status: number) => ({ kind: 'refused', status })

describe('over HTTP [2.1]', () => {
  test.each<[string, ReturnType<typeof from>, string, object]>([
    ['this machine sees everything, without a token', from(undefined, true), 'syncz', { kind: 'all' }],
    ['from elsewhere a token is needed', from(), 'syncz', refused(401)],
    ['and a good one', from('Bearer x'), 'syncz', refused(401)],
    ['the namespace of the control plane sees everything', from('Bearer of istio-system'), 'syncz', { kind: 'all' }],
    ['"Istio TOKEN" is a token as well', from('Istio of istio-system'), 'syncz', { kind: 'all' }],
    ['"istio TOKEN" is none', from('istio of istio-system'), 'syncz', refused(401)],
    ['a namespace that is named sees everything', from('Bearer of ops'), 'ambientz', { kind: 'all' }],
    ['others see no page about the mesh', from('Bearer of shop'), 'ambientz', refused(403)],
    [
      'others see what proxies of their own hold',
      from('Bearer of shop'),
      'config_dump',
      { kind: 'namespace', namespace: 'shop' },
    ],
    ['what cannot be judged now is to be asked again', from('Bearer of outage'), 'syncz', refused(503)],
  ])('%s', async (_what, request, page, sight) => {
    expect(await access().judge(request, page)).toEqual(sight)
  })

  test('with the rules turned off every proven caller sees everything, and no other', async () => {
    const open = access({ byNamespace: false })
    expect(await open.judge(from('Bearer of shop'), 'ambientz')).toEqual({ kind: 'all' })
    expect(await open.judge(from(), 'ambientz')).toEqual(refused(401))
  })

  test('a fault is no permission', async () => {
    const broken = access({ prove: () => Promise.reject(new TypeError('a bug')) })
    await expect(broken.judge(from('Bearer x'), 'syncz')).rejects.toThrow('a bug')
  })
})

describe('over a discovery stream', () => {
  const id = (namespace: string): string => `spiffe://cluster.local/ns/${namespace}/sa/x`
  test('the same namespaces see everything, others nothing', () => {
    const admit = (ids: readonly string[]): void => access().admit(ids)
    admit([id('istio-system')])
    admit(['x', id('ops')])
    expect(() => admit([id('shop')])).toThrow(
      new ProtocolError(`the debug info is not available for current identity: ${id('shop')}`, 7),
    )
    expect(() => admit([])).toThrow(new ProtocolError('authentication required', 16))
    expect(() => admit(['spiffe://cluster.local/ns/istio-system/sa/x/y'])).toThrow(ProtocolError)
  })
})

describe('the pages', () => {
  const clients = [
    makeClient({ connectionId: 'gate.shop-1', namespace: 'shop' }),
    makeClient({ connectionId: 'gate.bank-2', namespace: 'bank' }),
  ]
  const routes = createDebugRoutes({
    store: createShop(),
    clients: () => clients,
    held: () => new Map(),
    access: access(),
  })
  const ask = async (target: string, authorization?: string) => {
    const [path, query] = target.split('?')
    const route = routes.find((candidate) => candidate.path === path)!
    const request = { ...from(authorization), method: 'GET' as const, path: path!, query: new URLSearchParams(query) }
    const { status, body } = await route.handle(request)
    return [status, typeof body === 'string' ? body : 'parts'] as const
  }

  test.each<[string, string | undefined, string, number, string]>([
    ['the index is for everybody', undefined, '/debug', 200, '<!doctype html>'],
    ['nothing else is', undefined, '/debug/syncz', 401, ''],
    [
      'the control plane’s people see every proxy',
      'Bearer of istio-system',
      '/debug/config_dump?proxyID=bank',
      200,
      '{}',
    ],
    ['people of a namespace see their own', 'Bearer of shop', '/debug/config_dump?proxyID=gate.shop-1', 200, '{}'],
    ['not those of others', 'Bearer of shop', '/debug/config_dump?proxyID=gate.bank-2', 403, ''],
    ['nor whether there are any', 'Bearer of shop', '/debug/config_dump?proxyID=nobody', 403, ''],
    ['a name that fits several is their own', 'Bearer of bank', '/debug/config_dump?proxyID=gate', 200, '{}'],
    ['and a question that is wrong is told so', 'Bearer of shop', '/debug/config_dump', 400, 'You must provide'],
    ['lists of clients are not theirs', 'Bearer of shop', '/debug/connections', 403, ''],
  ])('%s', async (_what, authorization, target, status, begin) => {
    const [seen, body] = await ask(target, authorization)
    expect([seen, body.slice(0, begin.length)]).toEqual([status, begin])
  })
})
