// SPDX-License-Identifier: Apache-2.0
// A control plane on a real socket that can be killed and come back, over a small mesh, and the address book of node-1 beside it.

import { Registry } from 'prom-client'
import { systemClock, type Clock } from '../../../src/base/clock.js'
import { silentLogger } from '../../../src/base/log.js'
import { createAddresses, type Addresses, type AddressesOptions } from '../../../src/node-agent/addresses.js'
import { createXdsServer, type XdsServer, type XdsServerOptions } from '../../../src/xds/server.js'
import type { FrontTls } from '../../../src/xds/front-tls.js'
import { ip, makeService, makeWorkload, ToyStore } from '../../support/toy-store.js'

const port = { servicePort: 80, targetPort: 8080, appProtocol: 0 }
const inWeb = new Map([['shop/web.shop.svc.cluster.local', [port]]])

export const web = makeService({ name: 'web', addresses: [{ network: '', address: ip('10.96.0.10') }], ports: [port] })
export const webA = makeWorkload({ name: 'web-a', addresses: [ip('10.0.0.1')], tunnelProtocol: 1, services: inWeb })
export const webB = makeWorkload({ name: 'web-b', addresses: [ip('10.0.0.2')], node: 'node-2', services: inWeb })
export const lone = makeWorkload({ name: 'lone', addresses: [ip('10.0.0.9')], node: 'node-2' })
export const range = makeService({
  name: 'legacy',
  namespace: 'edge',
  hostname: 'legacy.example.com',
  addresses: [{ network: '', address: ip('172.16.0.0'), length: 12 }],
})

export interface Plane {
  readonly port: number
  readonly server: XdsServer
  kill(): Promise<void>
}

export async function startPlane(
  store: ToyStore,
  options: { readonly port?: number; readonly tls?: FrontTls } & Partial<XdsServerOptions> = {},
): Promise<Plane> {
  const { port: wanted = 0, tls, ...rest } = options
  const server = createXdsServer({ store, clock: systemClock, log: silentLogger, registry: new Registry(), ...rest })
  const bound = await server.listen({ host: '127.0.0.1', port: wanted, ...(tls === undefined ? {} : { tls }) })
  return { port: bound.port, server, kill: async () => await server.close() }
}

export interface Node {
  readonly addresses: Addresses
  readonly registry: Registry
  stop(): Promise<void>
}

/** An agent's client of 127.0.0.1:`port`, running. */
export function startNode(port: number, options: Partial<AddressesOptions> = {}): Node {
  const registry = new Registry()
  const addresses = createAddresses({
    target: `127.0.0.1:${port}`,
    isPlaintext: true,
    nodeName: 'node-1',
    namespace: 'istio-system',
    clusterId: 'Kubernetes',
    network: '',
    clock: systemClock,
    log: silentLogger,
    registry,
    random: () => 1,
    ...options,
  })
  const end = new AbortController()
  const done = addresses.run(end.signal)
  return {
    addresses,
    registry,
    async stop() {
      end.abort(new Error('the test is over'))
      await done
    },
  }
}

export function createMesh(): ToyStore {
  const store = new ToyStore()
  store.put(web, webA, webB, lone, range)
  return store
}

/** Waits for what real sockets bring; fails after ten seconds with what was waited for. */
export async function until(isSo: () => boolean, what: string): Promise<void> {
  const end = Date.now() + 10_000
  while (!isSo()) {
    if (Date.now() > end) throw new Error(`waited for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** A clock whose hours are moved by hand, while its timers run in real time. */
export function shiftingClock(): Clock & { shift(ms: number): void } {
  let shiftedMs = 0
  return {
    now: () => systemClock.now() + shiftedMs,
    monotonic: () => systemClock.monotonic() + shiftedMs,
    after: (delayMs, task) => systemClock.after(delayMs, task),
    shift: (ms) => (shiftedMs += ms),
  }
}

export async function readMetric(
  registry: Registry,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number | undefined> {
  const metric = (await registry.getMetricsAsJSON()).find((one) => one.name === name)
  return metric?.values.find((one) => Object.entries(labels).every(([key, value]) => one.labels[key] === value))?.value
}
