// SPDX-License-Identifier: Apache-2.0
// A tiny writer of Kubernetes' protobuf encoding, for the fake API server and the tests of the decoders. Writes the fields that real objects
// of the six built-in kinds have, as Go writes them: fields that are no pointers even when they are empty.

import type { Json } from './fake-apiserver-store.js'

function varint(value: number | bigint): Buffer {
  let rest = BigInt.asUintN(64, BigInt(value))
  const out: number[] = []
  while (rest > 127n) {
    out.push(Number(rest & 127n) | 128)
    rest >>= 7n
  }
  out.push(Number(rest))
  return Buffer.from(out)
}

const tag = (field: number, wire: number): Buffer => varint((field << 3) | wire)
const bytes = (field: number, value: Buffer): Buffer => Buffer.concat([tag(field, 2), varint(value.length), value])
const text = (field: number, value: string | undefined): Buffer => bytes(field, Buffer.from(value ?? ''))
const number = (field: number, value: number | undefined): Buffer => Buffer.concat([tag(field, 0), varint(value ?? 0)])
const flag = (field: number, value: boolean | undefined): Buffer => number(field, value ? 1 : 0)
const message = (field: number, ...parts: Buffer[]): Buffer => bytes(field, Buffer.concat(parts))
const none = Buffer.alloc(0)

/** A field that is a pointer in Go: nothing when it is absent. */
function optional<V>(value: V | undefined | null, write: (value: V) => Buffer): Buffer {
  return value === undefined || value === null ? none : write(value)
}

function each<V>(values: readonly V[] | undefined, write: (value: V) => Buffer): Buffer {
  return Buffer.concat((values ?? []).map(write))
}

function textMap(field: number, map: Record<string, string> | undefined): Buffer {
  const sorted = Object.entries(map ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
  return each(sorted, ([key, value]) => message(field, text(1, key), text(2, value)))
}

const time = (field: number, value: string): Buffer =>
  message(field, number(1, Math.floor(Date.parse(value) / 1000)), number(2, 0))

function metadata(meta: Json): Buffer {
  return message(
    1,
    text(1, meta.name),
    text(2, meta.generateName),
    text(3, meta.namespace),
    text(4, ''),
    text(5, meta.uid),
    text(6, meta.resourceVersion),
    number(7, meta.generation),
    meta.creationTimestamp ? time(8, meta.creationTimestamp) : message(8),
    optional(meta.deletionTimestamp, (t: string) => time(9, t)),
    optional(meta.deletionGracePeriodSeconds, (n: number) => number(10, n)),
    textMap(11, meta.labels),
    textMap(12, meta.annotations),
    each(meta.ownerReferences, (o: Json) =>
      message(
        13,
        text(1, o.kind),
        text(3, o.name),
        text(4, o.uid),
        text(5, o.apiVersion),
        optional(o.controller, (c: boolean) => flag(6, c)),
      ),
    ),
    each(meta.finalizers, (f: string) => text(14, f)),
    each(meta.managedFields, (m: Json) => message(17, text(1, m.manager), message(7, bytes(1, Buffer.from('{}'))))),
  )
}

function container(field: number, c: Json): Buffer {
  return message(
    field,
    text(1, c.name),
    text(2, c.image),
    each(c.args, (a: string) => text(4, a)),
    each(c.ports, (p: Json) =>
      message(6, text(1, p.name), number(2, p.hostPort), number(3, p.containerPort), text(4, p.protocol), text(5, '')),
    ),
    each(c.env, (e: Json) => message(7, text(1, e.name), text(2, e.value))),
    message(8),
    optional(c.restartPolicy, (r: string) => text(24, r)),
  )
}

function pod(o: Json): Buffer[] {
  const spec: Json = o.spec ?? {}
  const status: Json = o.status ?? {}
  return [
    message(
      2,
      each(spec.containers, (c: Json) => container(2, c)),
      text(3, spec.restartPolicy),
      textMap(7, spec.nodeSelector),
      text(8, spec.serviceAccountName),
      text(9, spec.serviceAccountName),
      text(10, spec.nodeName),
      flag(11, spec.hostNetwork),
      each(spec.initContainers, (c: Json) => container(20, c)),
    ),
    message(
      3,
      text(1, status.phase),
      each(status.conditions, (c: Json) =>
        message(2, text(1, c.type), text(2, c.status), message(3), message(4), text(5, '')),
      ),
      text(5, status.hostIP),
      text(6, status.podIP),
      each(status.podIPs, (p: Json) => message(12, text(1, p.ip))),
    ),
  ]
}

function targetPort(field: number, value: number | string | undefined): Buffer {
  return typeof value === 'string'
    ? message(field, number(1, 1), number(2, 0), text(3, value))
    : message(field, number(1, 0), number(2, value), text(3, ''))
}

function service(o: Json): Buffer[] {
  const spec: Json = o.spec ?? {}
  return [
    message(
      2,
      each(spec.ports, (p: Json) =>
        message(
          1,
          text(1, p.name),
          text(2, p.protocol),
          number(3, p.port),
          targetPort(4, p.targetPort),
          number(5, p.nodePort),
          optional(p.appProtocol, (a: string) => text(6, a)),
        ),
      ),
      textMap(2, spec.selector),
      text(3, spec.clusterIP),
      text(4, spec.type),
      text(7, spec.sessionAffinity),
      flag(13, spec.publishNotReadyAddresses),
      each(spec.clusterIPs, (ip: string) => text(18, ip)),
      each(spec.ipFamilies, (f: string) => text(19, f)),
      optional(spec.internalTrafficPolicy, (p: string) => text(22, p)),
      optional(spec.trafficDistribution, (d: string) => text(23, d)),
    ),
    message(
      3,
      message(1),
      each(o.status?.conditions, (c: Json) =>
        message(
          2,
          text(1, c.type),
          text(2, c.status),
          optional(c.observedGeneration, (n: number) => number(3, n)),
          message(4),
          text(5, c.reason),
          text(6, c.message),
        ),
      ),
    ),
  ]
}

function endpointSlice(o: Json): Buffer[] {
  return [
    each(o.endpoints, (e: Json) =>
      message(
        2,
        each(e.addresses, (a: string) => text(1, a)),
        message(
          2,
          optional(e.conditions?.ready, (r: boolean) => flag(1, r)),
          optional(e.conditions?.serving, (s: boolean) => flag(2, s)),
        ),
        optional(e.targetRef, (t: Json) =>
          message(4, text(1, t.kind), text(2, t.namespace), text(3, t.name), text(4, t.uid), text(5, t.apiVersion)),
        ),
        optional(e.nodeName, (n: string) => text(6, n)),
      ),
    ),
    each(o.ports, (p: Json) =>
      message(
        3,
        optional(p.name, (n: string) => text(1, n)),
        optional(p.protocol, (n: string) => text(2, n)),
        optional(p.port, (n: number) => number(3, n)),
      ),
    ),
    text(4, o.addressType),
  ]
}

const writers: Record<string, (object: Json) => Buffer[]> = {
  Pod: pod,
  Service: service,
  EndpointSlice: endpointSlice,
  Node: (o) => [
    message(
      2,
      text(1, '10.64.0.0/24'),
      each(o.spec?.taints, (t: Json) => message(5, text(1, t.key), text(2, t.value), text(3, t.effect))),
    ),
    message(3),
  ],
  Namespace: (o) => [
    message(
      2,
      each(o.spec?.finalizers, (f: string) => text(1, f)),
    ),
    message(3, text(1, o.status?.phase)),
  ],
  ConfigMap: (o) => [textMap(2, o.data)],
}

export function canWriteProtobuf(kind: string): boolean {
  return kind in writers
}

function envelope(apiVersion: string, kind: string, raw: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from('k8s\0'),
    message(1, text(1, apiVersion), text(2, kind)),
    bytes(2, raw),
    text(3, ''),
    text(4, ''),
  ])
}

/** An object without its envelope. */
export function toProtobuf(kind: string, object: Json): Buffer {
  return Buffer.concat([metadata(object.metadata), ...(writers[kind]?.(object) ?? [])])
}

export function toProtobufList(
  kind: string,
  objects: readonly Json[],
  meta: { version: string; next: string },
): Buffer {
  const raw = [
    message(1, text(1, ''), text(2, meta.version), text(3, meta.next)),
    ...objects.map((o) => bytes(2, toProtobuf(kind, o))),
  ]
  return envelope('v1', `${kind}List`, Buffer.concat(raw))
}

function toProtobufStatus(status: Json): Buffer {
  return Buffer.concat([
    message(1),
    text(2, status.status),
    text(3, status.message),
    text(4, status.reason),
    number(6, status.code),
  ])
}

/** A frame of a watch. A bookmark's object holds a version alone; an ERROR's is a Status. */
export function toProtobufEvent(type: string, kind: string, object: Json): Buffer {
  const raw =
    type === 'ERROR'
      ? envelope('v1', 'Status', toProtobufStatus(object))
      : envelope('v1', kind, toProtobuf(kind, object))
  const event = Buffer.concat([text(1, type), message(2, bytes(1, raw))])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(event.length)
  return Buffer.concat([length, event])
}
