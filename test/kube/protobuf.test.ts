// SPDX-License-Identifier: Apache-2.0
// Both encodings of the built-in kinds give the same rows; broken bytes are refused.

import { afterEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { InvalidInput } from '../../src/base/errors.js'
import type { Kind } from '../../src/kube/records.js'
import { jsonEncoding } from '../../src/kube/wire-json.js'
import { isProtobufKind, protobufEncoding } from '../../src/kube/wire-protobuf.js'
import { toProtobufEvent, toProtobufList } from '../support/fake-apiserver-protobuf.js'
import { createWorld, makePod, stopWorlds } from './support-reflect.js'

afterEach(stopWorlds)

const name = fc.constantFrom('a', 'b-1', 'web', 'ünï', 'x'.repeat(200))
const labels = fc.option(
  fc.dictionary(fc.constantFrom('app', 'version', 'a/b', 'x'), fc.constantFrom('', '1', 'web', 'é')),
  { nil: undefined },
)
const annotations = fc.option(
  fc.dictionary(
    fc.constantFrom(
      'ambient.istio.io/redirection',
      'networking.istio.io/traffic-distribution',
      'istio.io/use-waypoint-canary-weight',
      'other',
    ),
    fc.constantFrom('', 'enabled', 'PreferClose', '5', 'long'.repeat(100)),
  ),
  { nil: undefined },
)
const time = fc.constantFrom('2026-01-01T00:00:10Z', '1970-01-01T00:00:00Z', '2040-02-03T04:05:06Z')
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const port = fc.constantFrom(0, 1, 80, 8080, 65535)
const protocol = optional(fc.constantFrom('TCP', 'UDP', 'SCTP'))
const ip = fc.constantFrom('10.0.0.1', 'fd00::1', '192.0.2.7')

const owner = fc.record({
  kind: fc.constantFrom('ReplicaSet', 'Job'),
  name,
  uid: name,
  apiVersion: fc.constant('apps/v1'),
  controller: optional(fc.boolean()),
})
const meta = fc.record({
  name,
  namespace: name,
  uid: fc.uuid(),
  resourceVersion: fc.nat().map(String),
  generateName: optional(fc.constantFrom('', 'web-')),
  generation: optional(fc.nat()),
  creationTimestamp: optional(time),
  deletionTimestamp: optional(time),
  labels,
  annotations,
  ownerReferences: optional(fc.array(owner, { maxLength: 2 })),
  finalizers: optional(fc.array(name, { maxLength: 2 })),
  managedFields: optional(fc.array(fc.record({ manager: name }), { maxLength: 2 })),
})

const containerPort = fc.record({ name: optional(fc.constantFrom('', 'http', 'grpc')), containerPort: port, protocol })
const container = fc.record({
  name,
  image: name,
  args: optional(fc.array(name, { maxLength: 2 })),
  ports: optional(fc.array(containerPort, { maxLength: 3 })),
  restartPolicy: optional(fc.constantFrom('Always', 'Never')),
})
const condition = fc.record({
  type: fc.constantFrom('Ready', 'Initialized'),
  status: fc.constantFrom('True', 'False', 'Unknown'),
})

const ownCondition = fc.record({
  type: fc.constantFrom('istio.io/WaypointBound', 'example.org/Other'),
  status: fc.constantFrom('True', 'False'),
  reason: fc.constantFrom('', 'WaypointAccepted'),
  message: fc.constantFrom('', 'ünï'),
  observedGeneration: optional(fc.nat()),
})

const bodies: Partial<Record<Kind, fc.Arbitrary<object>>> = {
  Pod: fc.record({
    spec: fc.record({
      containers: fc.array(container, { maxLength: 3 }),
      initContainers: optional(fc.array(container, { maxLength: 2 })),
      nodeName: optional(name),
      nodeSelector: labels,
      serviceAccountName: optional(name),
      hostNetwork: optional(fc.boolean()),
    }),
    status: optional(
      fc.record({
        phase: optional(fc.constantFrom('Pending', 'Running', 'Succeeded')),
        conditions: optional(fc.array(condition, { maxLength: 3 })),
        podIP: optional(ip),
        podIPs: optional(fc.array(fc.record({ ip }), { maxLength: 2 })),
      }),
    ),
  }),
  Service: fc.record({
    spec: fc.record({
      type: optional(fc.constantFrom('ClusterIP', 'ExternalName')),
      clusterIP: optional(fc.constantFrom('None', '', '10.96.0.1')),
      clusterIPs: optional(fc.array(ip, { maxLength: 2 })),
      selector: labels,
      ports: optional(
        fc.array(
          fc.record({
            name: optional(name),
            port,
            protocol,
            appProtocol: optional(fc.constantFrom('', 'http')),
            targetPort: optional(fc.oneof(port, name)),
          }),
          { maxLength: 3 },
        ),
      ),
      ipFamilies: optional(fc.array(fc.constantFrom('IPv4', 'IPv6'), { maxLength: 2 })),
      internalTrafficPolicy: optional(fc.constantFrom('Local', 'Cluster')),
      trafficDistribution: optional(fc.constantFrom('PreferClose')),
      publishNotReadyAddresses: optional(fc.boolean()),
    }),
    status: optional(fc.record({ conditions: optional(fc.array(ownCondition, { maxLength: 3 })) })),
  }),
  EndpointSlice: fc.record({
    addressType: fc.constantFrom('IPv4', 'IPv6', 'FQDN'),
    ports: optional(
      fc.array(fc.record({ name: optional(fc.constantFrom('', 'http')), port: optional(port), protocol }), {
        maxLength: 3,
      }),
    ),
    endpoints: fc.array(
      fc.record({
        addresses: fc.array(ip, { maxLength: 2 }),
        conditions: optional(fc.record({ ready: optional(fc.boolean()), serving: optional(fc.boolean()) })),
        targetRef: optional(fc.record({ kind: fc.constantFrom('Pod', 'Node'), namespace: name, name, uid: name })),
        nodeName: optional(name),
      }),
      { maxLength: 3 },
    ),
  }),
  Node: fc.record({
    spec: fc.record({
      taints: optional(
        fc.array(fc.record({ key: fc.constantFrom('a/b', 'c'), effect: fc.constant('NoSchedule') }), { maxLength: 2 }),
      ),
    }),
  }),
  Namespace: fc.record({
    spec: fc.record({ finalizers: fc.array(name, { maxLength: 1 }) }),
    status: fc.record({ phase: fc.constant('Active') }),
  }),
  ConfigMap: fc.record({
    data: optional(fc.dictionary(fc.constantFrom('mesh', 'other'), fc.constantFrom('', 'a: 1', 'é'))),
  }),
}

const builtIn = Object.keys(bodies) as Kind[]

const objects = (kind: Kind): fc.Arbitrary<any> =>
  fc.tuple(meta, bodies[kind]!).map(([metadata, body]) => {
    const own = kind === 'Node' || kind === 'Namespace' ? { ...metadata, namespace: undefined } : metadata
    return JSON.parse(JSON.stringify({ metadata: own, ...body }))
  })

describe('a list and a watch in protobuf give the rows that JSON gives', () => {
  test.each(builtIn)('of %s', (kind) => {
    fc.assert(
      fc.property(fc.array(objects(kind), { maxLength: 4 }), fc.nat(50), (items, cut) => {
        const json = jsonEncoding.decodePage(
          kind,
          Buffer.from(JSON.stringify({ metadata: { resourceVersion: '7', continue: 'x' }, items })),
          'c',
        )
        const bytes = toProtobufList(kind, items, { version: '7', next: 'x' })
        expect(protobufEncoding.decodePage(kind, bytes, 'c')).toStrictEqual(json)

        const events = items.flatMap((object) => [
          { type: 'ADDED', object },
          { type: 'DELETED', object },
        ])
        events.push({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '9', creationTimestamp: null } } })
        events.push({ type: 'ERROR', object: { status: 'Failure', code: 410, reason: 'Expired', message: 'too old' } })
        const inJson = Buffer.from(events.map((e) => `${JSON.stringify(e)}\n`).join(''))
        const inProtobuf = Buffer.concat(events.map((e) => toProtobufEvent(e.type, kind, e.object)))
        const read = (encoding: typeof jsonEncoding, stream: Buffer, step: number) => {
          const decoder = encoding.createWatchDecoder(kind, 'c')
          const out = []
          for (let i = 0; i < stream.length; i += step) out.push(...decoder.push(stream.subarray(i, i + step)))
          return out
        }
        const wanted = read(jsonEncoding, inJson, inJson.length)
        expect(wanted.length).toBe(events.length)
        expect(read(protobufEncoding, inProtobuf, cut + 1)).toStrictEqual(wanted)
        expect(read(jsonEncoding, inJson, cut + 1)).toStrictEqual(wanted)
      }),
      { numRuns: 60 },
    )
  })

  test('for the kinds that have this encoding', () => {
    expect(builtIn.filter((k) => !isProtobufKind(k))).toStrictEqual([])
    expect([isProtobufKind('Gateway'), isProtobufKind('ServiceEntry')]).toStrictEqual([false, false])
  })
})

describe('bytes that are no protobuf of Kubernetes', () => {
  test('are refused wherever they are cut', () => {
    const whole = toProtobufList('Pod', [makePod('a', '10.0.0.1')], { version: '1', next: '' })
    for (let length = 0; length < whole.length; length++) {
      let outcome: unknown
      try {
        outcome = protobufEncoding.decodePage('Pod', whole.subarray(0, length), 'c')
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidInput)
        continue
      }
      // Cut between two fields of the envelope, behind or before the whole list.
      expect([0, 1]).toContain((outcome as { items: unknown[] }).items.length)
    }
  })

  test('never do worse than being refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
        for (const kind of builtIn) {
          try {
            protobufEncoding.decodePage(
              kind,
              Buffer.concat([Buffer.from('k8s\0'), Buffer.from([18, noise.length & 127]), noise]),
              'c',
            )
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidInput)
          }
        }
      }),
    )
  })
})

test('a server that speaks protobuf is read in it, lists and watches', async () => {
  const world = await createWorld({ protobuf: true, prepare: (server) => server.upsert(makePod('a', '10.0.0.1')) })
  world.server.upsert(makePod('b', '10.0.0.2'))
  world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'a' })
  world.server.bookmark(['Pod'])
  await world.settle()
  expect(world.table('Pod').log).toStrictEqual(['replace c/shop/a', 'set c/shop/b', 'delete c/shop/a'])
  expect(world.feed.seen('Pod')).toBe(String(world.server.store.version))
  world.server.relist(['Pod'], () => world.server.upsert(makePod('c', '10.0.0.3')))
  await world.settle()
  expect([...world.table('Pod').rows.keys()]).toStrictEqual(['c/shop/b', 'c/shop/c'])
})
