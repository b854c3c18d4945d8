// SPDX-License-Identifier: Apache-2.0
// Objects of the mesh in Kubernetes' protobuf encoding, whole: what a server stores and sends weighs what it really weighs. Field numbers are
// those of Kubernetes. For the bench alone; decodes nothing.

import type { Json, MeshKind } from './mesh.js'

/** A field: its number, and how its value is written. Messages are tables of fields; a table in an array is a repeated message. */
type How = 'text' | 'texts' | 'map' | 'quantities' | 'number' | 'time' | 'port' | 'raw' | Fields | [Fields]
interface Fields {
  readonly [name: string]: readonly [number, How]
}

const metadata: Fields = {
  name: [1, 'text'],
  namespace: [3, 'text'],
  uid: [5, 'text'],
  resourceVersion: [6, 'text'],
  creationTimestamp: [8, 'time'],
  labels: [11, 'map'],
  annotations: [12, 'map'],
  ownerReferences: [
    13,
    [{ kind: [1, 'text'], name: [3, 'text'], uid: [4, 'text'], apiVersion: [5, 'text'], controller: [6, 'number'] }],
  ],
  managedFields: [
    17,
    [
      {
        manager: [1, 'text'],
        operation: [2, 'text'],
        apiVersion: [3, 'text'],
        time: [4, 'time'],
        fieldsType: [6, 'text'],
        fieldsV1: [7, 'raw'],
        subresource: [8, 'text'],
      },
    ],
  ],
}

const container: Fields = {
  name: [1, 'text'],
  image: [2, 'text'],
  ports: [6, [{ name: [1, 'text'], containerPort: [3, 'number'], protocol: [4, 'text'] }]],
  env: [7, [{ name: [1, 'text'], value: [2, 'text'] }]],
  resources: [8, { limits: [1, 'quantities'], requests: [2, 'quantities'] }],
  volumeMounts: [9, [{ name: [1, 'text'], mountPath: [3, 'text'] }]],
  readinessProbe: [
    11,
    {
      // The server's JSON has the handler's fields in the probe itself.
      handler: [1, { httpGet: [2, { path: [1, 'text'], port: [2, 'port'], scheme: [4, 'text'] }] }],
      timeoutSeconds: [3, 'number'],
      periodSeconds: [4, 'number'],
      successThreshold: [5, 'number'],
      failureThreshold: [6, 'number'],
    },
  ],
  terminationMessagePath: [13, 'text'],
  imagePullPolicy: [14, 'text'],
  terminationMessagePolicy: [20, 'text'],
}

const podSpec: Fields = {
  volumes: [1, [{ name: [1, 'text'], source: [2, { emptyDir: [2, {}] }] }]],
  containers: [2, [container]],
  restartPolicy: [3, 'text'],
  terminationGracePeriodSeconds: [4, 'number'],
  dnsPolicy: [6, 'text'],
  serviceAccountName: [8, 'text'],
  serviceAccount: [9, 'text'],
  nodeName: [10, 'text'],
  securityContext: [14, {}],
  schedulerName: [19, 'text'],
  tolerations: [
    22,
    [{ key: [1, 'text'], operator: [2, 'text'], effect: [4, 'text'], tolerationSeconds: [5, 'number'] }],
  ],
  priority: [25, 'number'],
  enableServiceLinks: [30, 'number'],
  preemptionPolicy: [31, 'text'],
}

const podStatus: Fields = {
  phase: [1, 'text'],
  conditions: [2, [{ type: [1, 'text'], status: [2, 'text'], lastTransitionTime: [4, 'time'] }]],
  hostIP: [5, 'text'],
  podIP: [6, 'text'],
  startTime: [7, 'time'],
  containerStatuses: [
    8,
    [
      {
        name: [1, 'text'],
        state: [2, { running: [2, { startedAt: [1, 'time'] }] }],
        ready: [4, 'number'],
        restartCount: [5, 'number'],
        image: [6, 'text'],
        imageID: [7, 'text'],
        containerID: [8, 'text'],
        started: [9, 'number'],
      },
    ],
  ],
  qosClass: [9, 'text'],
  podIPs: [12, [{ ip: [1, 'text'] }]],
}

const serviceSpec: Fields = {
  ports: [1, [{ name: [1, 'text'], protocol: [2, 'text'], port: [3, 'number'], targetPort: [4, 'port'] }]],
  selector: [2, 'map'],
  clusterIP: [3, 'text'],
  type: [4, 'text'],
  sessionAffinity: [7, 'text'],
  ipFamilyPolicy: [17, 'text'],
  clusterIPs: [18, 'texts'],
  ipFamilies: [19, 'texts'],
  internalTrafficPolicy: [22, 'text'],
}

const endpoint: Fields = {
  addresses: [1, 'texts'],
  conditions: [2, { ready: [1, 'number'], serving: [2, 'number'], terminating: [3, 'number'] }],
  targetRef: [4, { kind: [1, 'text'], namespace: [2, 'text'], name: [3, 'text'], uid: [4, 'text'] }],
  nodeName: [6, 'text'],
}

const kinds: Record<MeshKind, Fields> = {
  Namespace: { metadata: [1, metadata], spec: [2, { finalizers: [1, 'texts'] }], status: [3, { phase: [1, 'text'] }] },
  Node: { metadata: [1, metadata], spec: [2, {}], status: [3, {}] },
  Service: { metadata: [1, metadata], spec: [2, serviceSpec], status: [3, { loadBalancer: [1, {}] }] },
  Pod: { metadata: [1, metadata], spec: [2, podSpec], status: [3, podStatus] },
  EndpointSlice: {
    metadata: [1, metadata],
    endpoints: [2, [endpoint]],
    ports: [3, [{ name: [1, 'text'], protocol: [2, 'text'], port: [3, 'number'] }]],
    addressType: [4, 'text'],
  },
}

/** Writes from the end of a buffer to its front, so that each length is known when its turn comes. */
class BackWriter {
  #bytes = Buffer.allocUnsafe(64 * 1024)
  #at = this.#bytes.length

  get written(): number {
    return this.#bytes.length - this.#at
  }

  take(): Buffer {
    const whole = Buffer.from(this.#bytes.subarray(this.#at))
    this.#at = this.#bytes.length
    return whole
  }

  varint(value: number): void {
    const digits: number[] = []
    let rest = value
    for (; rest > 127; rest = Math.floor(rest / 128)) digits.push((rest % 128) | 128)
    digits.push(rest)
    this.#reserve(digits.length)
    this.#at -= digits.length
    this.#bytes.set(digits, this.#at)
  }

  text(value: string): void {
    const length = Buffer.byteLength(value)
    this.#reserve(length)
    this.#at -= length
    this.#bytes.write(value, this.#at)
  }

  bytes(value: Uint8Array): void {
    this.#reserve(value.length)
    this.#at -= value.length
    this.#bytes.set(value, this.#at)
  }

  /** What `write` puts in front, as a field with a length. */
  block(field: number, write: () => void): void {
    const before = this.written
    write()
    this.varint(this.written - before)
    this.varint(field * 8 + 2)
  }

  number(field: number, value: number): void {
    this.varint(value)
    this.varint(field * 8)
  }

  #reserve(length: number): void {
    if (this.#at >= length) return
    const grown = Buffer.allocUnsafe(2 * this.#bytes.length + length)
    const kept = this.#bytes.subarray(this.#at)
    this.#at = grown.length - kept.length
    grown.set(kept, this.#at)
    this.#bytes = grown
  }
}

const writer = new BackWriter()

function writeMap(field: number, map: Json, write: (value: any) => void): void {
  for (const key of Object.keys(map).sort().reverse()) {
    writer.block(field, () => {
      writer.block(2, () => write(map[key]))
      writer.block(1, () => writer.text(key))
    })
  }
}

function writePort(value: number | string): void {
  if (typeof value === 'string') writer.block(3, () => writer.text(value))
  else writer.number(2, value)
  writer.number(1, typeof value === 'string' ? 1 : 0)
}

function writeField(field: number, how: How, value: any): void {
  if (Array.isArray(how)) {
    const [fields] = how
    for (const one of (value as Json[]).toReversed()) writer.block(field, () => writeFields(fields, one))
  } else if (typeof how === 'object') writer.block(field, () => writeFields(how, value))
  else if (how === 'text') writer.block(field, () => writer.text(value))
  else if (how === 'texts')
    for (const one of (value as string[]).toReversed()) writer.block(field, () => writer.text(one))
  else if (how === 'number') writer.number(field, Number(value))
  else if (how === 'time') writer.block(field, () => writer.number(1, Date.parse(value) / 1000))
  else if (how === 'port') writer.block(field, () => writePort(value))
  else if (how === 'raw') writer.block(field, () => writer.block(1, () => writer.text(JSON.stringify(value))))
  else if (how === 'map') writeMap(field, value, (text: string) => writer.text(text))
  else writeMap(field, value, (text: string) => writer.block(1, () => writer.text(text)))
}

/** Where the JSON and the protobuf form nest differently. */
const nested: Record<string, (object: Json) => Json> = {
  handler: (probe) => ({ httpGet: probe.httpGet }),
  source: (volume) => ({ emptyDir: volume.emptyDir }),
}

function writeFields(fields: Fields, object: Json): void {
  for (const [name, [field, how]] of Object.entries(fields).reverse()) {
    const value = nested[name]?.(object) ?? object[name]
    if (value !== undefined) writeField(field, how, value)
  }
}

/** An object without its envelope. */
export function encodeObject(kind: MeshKind, object: Json): Buffer {
  writeFields(kinds[kind], object)
  return writer.take()
}

const magic = Buffer.from('k8s\0')

/** An encoded object in the envelope in which it is sent and stored. */
export function encodeEnvelope(apiVersion: string, kind: string, raw: Uint8Array): Buffer {
  writer.block(4, () => undefined)
  writer.block(3, () => undefined)
  writer.block(2, () => writer.bytes(raw))
  writer.block(1, () => {
    writer.block(2, () => writer.text(kind))
    writer.block(1, () => writer.text(apiVersion))
  })
  writer.bytes(magic)
  return writer.take()
}

/** A page of a list, with its envelope. */
export function encodeList(
  type: { readonly apiVersion: string; readonly kind: string },
  items: readonly Uint8Array[],
  page: { readonly version: string; readonly next: string },
): Buffer {
  for (const item of items.toReversed()) writer.block(2, () => writer.bytes(item))
  writer.block(1, () => {
    writer.block(3, () => writer.text(page.next))
    writer.block(2, () => writer.text(page.version))
  })
  return encodeEnvelope(type.apiVersion, `${type.kind}List`, writer.take())
}

/** A frame of a watch. */
export function encodeEvent(type: string, enveloped: Uint8Array): Buffer {
  writer.block(2, () => writer.block(1, () => writer.bytes(enveloped)))
  writer.block(1, () => writer.text(type))
  const event = writer.take()
  const frame = Buffer.allocUnsafe(4 + event.length)
  frame.writeUInt32BE(event.length)
  frame.set(event, 4)
  return frame
}
