// SPDX-License-Identifier: Apache-2.0
// Service and EndpointSlice from protobuf -> the rows that project-service.ts makes from JSON. Field numbers are those of k8s.io/api
// core/v1 and discovery/v1.

import { freezeTexts, internLabels, internString } from './intern.js'
import { readEntry, type WireMeta } from './protobuf-meta.js'
import { delimited, numeric, type ProtobufReader } from './protobuf-reader.js'
import { toConditions } from './project-conditions.js'
import { selectClusterIpsOf } from './project-service.js'
import type {
  ConditionRecord,
  EndpointRecord,
  EndpointSliceRecord,
  Meta,
  ServicePortRecord,
  ServiceRecord,
  SlicePortRecord,
} from './records.js'

function toMeta(meta: WireMeta, cluster: string): Meta {
  const { namespace, name, uid, labels, annotations, created } = meta
  return { cluster, namespace, name, uid, labels, annotations, created }
}

/** Reads the rest of a Service, whose metadata was read before, up to `end`. */
export function readService(r: ProtobufReader, end: number, meta: WireMeta, cluster: string): ServiceRecord {
  const spec = {
    type: '',
    ip: '',
    ips: [] as string[],
    ports: [] as ServicePortRecord[],
    selector: [] as string[],
    families: [] as string[],
    internalTrafficPolicy: '',
    trafficDistribution: '',
    publishNotReadyAddresses: false,
  }
  const conditions: ConditionRecord[] = []
  const readSpec = (): void => {
    const specEnd = r.end()
    while (r.pos < specEnd) {
      const tag = r.varint()
      switch (tag) {
        case delimited(1):
          spec.ports.push(readServicePort(r))
          break
        case delimited(2):
          readEntry(r, spec.selector)
          break
        case delimited(3):
          spec.ip = r.text()
          break
        case delimited(4):
          spec.type = internString(r.text())
          break
        case numeric(13):
          spec.publishNotReadyAddresses = r.flag()
          break
        case delimited(18):
          spec.ips.push(r.text())
          break
        case delimited(19):
          spec.families.push(internString(r.text()))
          break
        case delimited(22):
          spec.internalTrafficPolicy = internString(r.text())
          break
        case delimited(23):
          spec.trafficDistribution = internString(r.text())
          break
        default:
          r.skip(tag)
      }
    }
    r.close(specEnd)
  }
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(2)) readSpec()
    else if (tag === delimited(3)) readStatus(r, conditions)
    else r.skip(tag)
  }
  r.close(end)
  return Object.freeze({
    ...toMeta(meta, cluster),
    type: spec.type,
    clusterIps: selectClusterIpsOf(spec.ips, spec.ip),
    ports: Object.freeze(spec.ports),
    selector: spec.selector.length === 0 ? undefined : internLabels(spec.selector),
    ipFamilies: freezeTexts(spec.families),
    internalTrafficPolicy: spec.internalTrafficPolicy,
    trafficDistribution: spec.trafficDistribution,
    publishNotReadyAddresses: spec.publishNotReadyAddresses,
    conditions: toConditions('Service', conditions),
  })
}

/** Conditions of a ServiceStatus. */
function readStatus(r: ProtobufReader, conditions: ConditionRecord[]): void {
  const end = r.end()
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(2)) conditions.push(readCondition(r))
    else r.skip(tag)
  }
  r.close(end)
}

function readCondition(r: ProtobufReader): ConditionRecord {
  const end = r.end()
  const out = { type: '', status: '', reason: '', message: '', observedGeneration: 0 }
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) out.type = internString(r.text())
    else if (tag === delimited(2)) out.status = internString(r.text())
    else if (tag === numeric(3)) out.observedGeneration = r.varint()
    else if (tag === delimited(5)) out.reason = internString(r.text())
    else if (tag === delimited(6)) out.message = r.text()
    else r.skip(tag)
  }
  r.close(end)
  return out
}

function readServicePort(r: ProtobufReader): ServicePortRecord {
  const end = r.end()
  let name = ''
  let port = 0
  let protocol = ''
  let appProtocol: string | undefined
  let targetPort: number | string = 0
  while (r.pos < end) {
    const tag = r.varint()
    switch (tag) {
      case delimited(1):
        name = internString(r.text())
        break
      case delimited(2):
        protocol = internString(r.text())
        break
      case numeric(3):
        port = r.int32()
        break
      case delimited(4):
        targetPort = readIntOrText(r)
        break
      case delimited(6):
        appProtocol = r.text()
        break
      default:
        r.skip(tag)
    }
  }
  r.close(end)
  return Object.freeze({ name, port, protocol, appProtocol, targetPort })
}

/** Kubernetes' IntOrString: type 1 is text. */
function readIntOrText(r: ProtobufReader): number | string {
  const end = r.end()
  let type = 0
  let number = 0
  let text = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === numeric(1)) type = r.varint()
    else if (tag === numeric(2)) number = r.int32()
    else if (tag === delimited(3)) text = internString(r.text())
    else r.skip(tag)
  }
  r.close(end)
  return type === 1 ? text : number
}

/** Reads the rest of an EndpointSlice, whose metadata was read before, up to `end`. */
export function readEndpointSlice(
  r: ProtobufReader,
  end: number,
  meta: WireMeta,
  cluster: string,
): EndpointSliceRecord {
  const endpoints: EndpointRecord[] = []
  const ports: SlicePortRecord[] = []
  let addressType = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(2)) endpoints.push(readEndpoint(r))
    else if (tag === delimited(3)) ports.push(readSlicePort(r))
    else if (tag === delimited(4)) addressType = internString(r.text())
    else r.skip(tag)
  }
  r.close(end)
  return Object.freeze({
    ...toMeta(meta, cluster),
    addressType,
    ports: Object.freeze(ports),
    endpoints: Object.freeze(endpoints),
  })
}

function readSlicePort(r: ProtobufReader): SlicePortRecord {
  const end = r.end()
  let name: string | undefined
  let port: number | undefined
  let protocol = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) name = internString(r.text())
    else if (tag === delimited(2)) protocol = internString(r.text())
    else if (tag === numeric(3)) port = r.int32()
    else r.skip(tag)
  }
  r.close(end)
  return Object.freeze({ name, port, protocol })
}

function readEndpoint(r: ProtobufReader): EndpointRecord {
  const end = r.end()
  const addresses: string[] = []
  let ready = true
  let target: EndpointRecord['target']
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) addresses.push(r.text())
    else if (tag === delimited(2)) ready = readReady(r)
    else if (tag === delimited(4)) target = readTarget(r)
    else r.skip(tag)
  }
  r.close(end)
  return Object.freeze({ addresses: freezeTexts(addresses), ready, target })
}

function readReady(r: ProtobufReader): boolean {
  const end = r.end()
  let ready = true
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === numeric(1)) ready = r.flag()
    else r.skip(tag)
  }
  r.close(end)
  return ready
}

function readTarget(r: ProtobufReader): EndpointRecord['target'] {
  const end = r.end()
  let kind = ''
  let namespace = ''
  let name = ''
  let uid = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) kind = internString(r.text())
    else if (tag === delimited(2)) namespace = internString(r.text())
    else if (tag === delimited(3)) name = r.text()
    else if (tag === delimited(4)) uid = r.text()
    else r.skip(tag)
  }
  r.close(end)
  return Object.freeze({ kind, namespace, name, uid })
}
