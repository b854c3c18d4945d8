// SPDX-License-Identifier: Apache-2.0
// A request from one pod to another through two real ztunnels, each in the network of its pod: encrypted, each knowing who the other is, and refused
// when a policy says so. Certificates are those of addressd.

import { afterEach, describe, expect } from '@jest/globals'
import type { Socket } from 'node:net'
import { testWith } from '../support/optional.js'
import { NetSpace } from './net-space.js'
import { namespace, pod, policy, service } from './objects.js'
import { expectHeld, expectReady, Room } from './room.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const maybe = testWith('ztunnel', whyNoZtunnel())

let room: Room | undefined
afterEach(async () => {
  await room?.close()
  room = undefined
})

const appPort = 8080
const clientIp = '10.77.0.1'
const serverIp = '10.77.0.2'
const clientName = 'spiffe://cluster.local/ns/shop/sa/client'
const serverName = 'spiffe://cluster.local/ns/bank/sa/server'
const echo = (socket: Socket): void =>
  void socket.on('data', (bytes: Buffer) => socket.end(`heard ${bytes.toString()}`))

const objects = [
  namespace('shop'),
  namespace('bank'),
  pod('shop/client', { ip: clientIp, node: 'node-a' }),
  pod('bank/server', { ip: serverIp, node: 'node-b' }),
  service('bank/server', '10.96.7.1'),
]

interface Pair {
  readonly client: Ztunnel
  readonly server: Ztunnel
}

async function start(): Promise<Pair> {
  room = await Room.open(objects)
  const [a, b] = [await room.openSpace(), await room.openSpace({ [appPort]: echo })]
  NetSpace.cable(a, `${clientIp}/24`, b, `${serverIp}/24`)
  const startOne = async (space: NetSpace, ns: string, name: string, node: string, ip: string): Promise<Ztunnel> =>
    room!.startZtunnel(space, {
      PROXY_MODE: 'dedicated',
      PROXY_WORKLOAD_INFO: `${ns}/${name}/${name}`,
      NODE_NAME: node,
      POD_NAME: name,
      POD_NAMESPACE: ns,
      INSTANCE_IP: ip,
      UNSTABLE_ENABLE_SOCKS5: 'true',
      AUTH_TOKEN: await room!.token(ns, name),
    })
  const client = await startOne(a, 'shop', 'client', 'node-a', clientIp)
  const server = await startOne(b, 'bank', 'server', 'node-b', serverIp)
  for (const ztunnel of [client, server]) {
    await expectReady(ztunnel)
    await expectHeld(ztunnel, () => room!.expected())
  }
  return { client, server }
}

/** Changes objects and waits until both have it. */
async function change({ client, server }: Pair, ...changed: Parameters<Room['change']>): Promise<void> {
  const before = JSON.stringify(room!.expected())
  room!.change(...changed)
  await until(
    () => Promise.resolve(JSON.stringify(room!.expected()) !== before),
    () => 'addressd to see a change',
  )
  for (const ztunnel of [client, server]) await expectHeld(ztunnel, () => room!.expected())
}

describe('a request from pod to pod through two real ztunnels', () => {
  maybe('arrives, encrypted, and each end knows the other by its certificate', async () => {
    const { client, server } = await start()
    expect(await client.ask(serverIp, appPort, 'hello')).toBe('heard hello')
    const labels = {
      reporter: 'destination',
      connection_security_policy: 'mutual_tls',
      source_principal: clientName,
      destination_principal: serverName,
    }
    await until(
      async () => (await server.metric('istio_tcp_connections_opened_total', labels)) === 1,
      () => `an encrypted connection in\n${server.lines.slice(-5).join('\n')}`,
    )
    expect(await server.metric('istio_tcp_connections_opened_total')).toBe(1)
    expect(server.lines.filter((line) => line.includes(`src.identity="${clientName}"`)).length).toBeGreaterThan(0)
    expect(client.lines.filter((line) => line.includes(`dst.hbone_addr=${serverIp}:${appPort}`)).length).toBe(1)
    for (const [ztunnel, identity] of [
      [client, clientName],
      [server, serverName],
    ] as const) {
      expect(await ztunnel.certificates()).toMatchObject([{ identity, state: 'Available' }])
    }
  })

  maybe('arrives by the virtual address of the service', async () => {
    const { client } = await start()
    expect(await client.ask('10.96.7.1', 80, 'hello')).toBe('heard hello')
  })

  maybe('is refused while a policy says so, and no longer', async () => {
    const pair = await start()
    const { client, server } = pair
    expect(await client.ask(serverIp, appPort, 'before')).toBe('heard before')

    const onlyOthers = policy('bank/only', {
      rules: [{ from: [{ source: { principals: ['cluster.local/ns/shop/sa/other'] } }] }],
    })
    await change(pair, [onlyOthers])
    expect(await client.ask(serverIp, appPort, 'refused').catch(() => '')).toBe('')
    await until(
      () => Promise.resolve(server.lines.some((line) => line.includes('allow policies'))),
      () => `a refusal in the log:\n${server.lines.slice(-5).join('\n')}`,
    )

    await change(pair, [
      policy('bank/only', { rules: [{ from: [{ source: { principals: ['cluster.local/ns/shop/sa/client'] } }] }] }),
    ])
    expect(await client.ask(serverIp, appPort, 'let in')).toBe('heard let in')

    const deny = policy('bank/deny', {
      selector: { matchLabels: { app: 'server' } },
      action: 'DENY',
      rules: [{ from: [{ source: { namespaces: ['shop'] } }] }],
    })
    await change(pair, [deny])
    expect(await client.ask(serverIp, appPort, 'denied').catch(() => '')).toBe('')

    await change(
      pair,
      [],
      [{ apiVersion: 'security.istio.io/v1', kind: 'AuthorizationPolicy', namespace: 'bank', name: 'deny' }],
    )
    expect(await client.ask(serverIp, appPort, 'after')).toBe('heard after')
  })

  maybe('arrives while addressd is gone, and after it has come back with the same root', async () => {
    const { client } = await start()
    expect(await client.ask(serverIp, appPort, 'before')).toBe('heard before')
    const root = room!.root
    await room!.stopServer(room!.server)
    expect(await client.ask(serverIp, appPort, 'alone')).toBe('heard alone')
    await room!.startServer()
    expect(room!.root).toBe(root)
    expect(await client.ask(serverIp, appPort, 'back')).toBe('heard back')
  })
})
