// SPDX-License-Identifier: Apache-2.0
// A small shop behind a real gRPC server that only answers people, and a way to run addressctl against it.

import { Server, ServerCredentials } from '@grpc/grpc-js'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { runCtl } from '../../src/ctl/ctl.js'
import type { Explainer } from '../../src/debug/explainer.js'
import { addInspectService } from '../../src/debug/inspect-service.js'
import type { ClientView } from '../../src/xds/client-view.js'
import type { ResourceStore } from '../../src/xds/source.js'
import { ip, makeService, makeWorkload, ToyStore } from '../support/toy-store.js'

export const web = makeService({
  name: 'web',
  addresses: [{ network: '', address: ip('10.96.0.10') }],
  ports: [{ servicePort: 80, targetPort: 8080, appProtocol: 0 }],
  waypoint: { hostname: { namespace: 'shop', hostname: 'wp.shop.svc.cluster.local' }, hboneMtlsPort: 15008 },
})
const inWeb = new Map([['shop/web.shop.svc.cluster.local', [{ servicePort: 80, targetPort: 8080, appProtocol: 0 }]]])
export const webA = makeWorkload({
  name: 'web-a',
  addresses: [ip('10.0.0.1')],
  tunnelProtocol: 1,
  workloadType: 0,
  workloadName: 'web',
  services: inWeb,
  authorizationPolicies: ['shop/only-front'],
})
export const webB = makeWorkload({
  name: 'web-b',
  addresses: [ip('10.0.0.2'), ip('fd00::2')],
  node: 'node-2',
  status: 1,
  services: inWeb,
})
export const waypoint = makeService({ name: 'wp', addresses: [{ network: '', address: ip('10.96.0.20') }] })
export const range = makeService({
  name: 'legacy',
  namespace: 'edge',
  hostname: 'legacy.example.com',
  addresses: [{ network: 'far', address: ip('172.16.0.0'), length: 12 }],
})
export const wildcard = makeService({ name: 'everything', namespace: 'edge', hostname: '*.example.org' })
export const far = makeWorkload({
  name: 'web-a',
  uid: 'other//Pod/edge/far-0',
  namespace: 'edge',
  clusterId: 'other',
  network: 'far',
  addresses: [ip('10.0.0.1')],
  node: '',
})
export const entry = makeWorkload({
  name: 'legacy',
  uid: 'Kubernetes/networking.istio.io/ServiceEntry/edge/legacy/192.0.2.7',
  namespace: 'edge',
  addresses: [ip('192.0.2.7')],
  node: '',
  serviceAccount: '',
})

/** Authorization {name, namespace, scope WORKLOAD_SELECTOR, action DENY} with one rule for 10.0.0.0/8. */
const policyBody = Buffer.from(
  `0a0a${Buffer.from('only-front').toString('hex')}1204${Buffer.from('shop').toString('hex')}18022001` +
    '2a0e0a0c120a2a08' +
    '0a040a000000' +
    '1008',
  'hex',
)

export function createShop(): ToyStore {
  const store = new ToyStore()
  store.put(web, webA, webB, waypoint, range, wildcard, far, entry)
  store.putPolicy('shop/only-front', policyBody)
  return store
}

export function makeClient(part: Partial<ClientView>): ClientView {
  return {
    connectionId: 'ztunnel-a.istio-system-1',
    proxy: 'ztunnel-a.istio-system',
    proxyType: 'ztunnel',
    nodeId: 'ztunnel~10.0.0.9~ztunnel-a.istio-system~istio-system.svc.cluster.local',
    clusterId: 'Kubernetes',
    namespace: 'istio-system',
    nodeName: 'node-1',
    version: '',
    metadata: {},
    locality: {},
    address: '10.0.0.9:41000',
    connectedAtMs: 0,
    watches: [],
    ...part,
  }
}

export interface Room {
  readonly address: string
  stop(): void
}

export interface RoomOptions {
  readonly clients?: () => readonly ClientView[]
  readonly explainer?: Explainer
  /** Default: any free one. */
  readonly port?: number
  /** More services on the same server. */
  readonly extend?: (server: Server) => void
}

/** Serves until stopped. */
export async function openRoom(store: ResourceStore, options: RoomOptions = {}): Promise<Room> {
  const server = new Server()
  addInspectService(server, {
    store,
    clients: options.clients ?? (() => []),
    explainer: options.explainer,
    clock: systemClock,
    log: silentLogger,
  })
  options.extend?.(server)
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${options.port ?? 0}`, ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    )
  })
  return { address: `127.0.0.1:${port}`, stop: () => server.forceShutdown() }
}

export interface Run {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs addressctl to its end. */
export async function ctl(room: Pick<Room, 'address'>, ...argv: readonly string[]): Promise<Run> {
  const run = { out: '', err: '' }
  const code = await runCtl(argv, {
    stdout: (text) => (run.out += text),
    stderr: (text) => (run.err += text),
    env: { ADDRESSD_SERVER: room.address },
  })
  return { code, ...run }
}
