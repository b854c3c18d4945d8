// SPDX-License-Identifier: Apache-2.0
// Pod from protobuf -> PodRecord, the same row that project-pod.ts makes from JSON. Field numbers are those of k8s.io/api/core/v1.

import { freezeTexts, internPorts, internString } from './intern.js'
import type { WireMeta } from './protobuf-meta.js'
import { delimited, numeric, type ProtobufReader } from './protobuf-reader.js'
import type { NamedPort, PodRecord } from './records.js'

interface Spec {
  node: string
  serviceAccount: string
  hostNetwork: boolean
  readonly ports: NamedPort[]
  readonly sidecarPorts: NamedPort[]
}

interface Status {
  phase: string
  ip: string
  readonly ips: string[]
  ready: boolean
}

/** Reads the rest of a Pod, whose metadata was read before, up to `end`. */
export function readPod(r: ProtobufReader, end: number, meta: WireMeta, cluster: string): PodRecord {
  const spec: Spec = { node: '', serviceAccount: '', hostNetwork: false, ports: [], sidecarPorts: [] }
  const status: Status = { phase: '', ip: '', ips: [], ready: false }
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(2)) readSpec(r, spec)
    else if (tag === delimited(3)) readStatus(r, status)
    else r.skip(tag)
  }
  r.close(end)
  return Object.freeze({
    cluster,
    namespace: meta.namespace,
    name: meta.name,
    uid: meta.uid,
    labels: meta.labels,
    annotations: meta.annotations,
    created: meta.created,
    deleting: meta.deleting,
    generated: meta.generated,
    owner: meta.owner,
    node: spec.node,
    serviceAccount: spec.serviceAccount,
    hostNetwork: spec.hostNetwork,
    ports: internPorts(spec.sidecarPorts.length === 0 ? spec.ports : [...spec.ports, ...spec.sidecarPorts]),
    phase: status.phase,
    ips: freezeTexts(status.ips.length > 0 ? status.ips : status.ip === '' ? [] : [status.ip]),
    ready: status.ready,
  })
}

function readSpec(r: ProtobufReader, spec: Spec): void {
  const end = r.end()
  while (r.pos < end) {
    const tag = r.varint()
    switch (tag) {
      case delimited(2):
        readContainer(r, spec.ports, false)
        break
      case delimited(8):
        spec.serviceAccount = internString(r.text())
        break
      case delimited(10):
        spec.node = internString(r.text())
        break
      case numeric(11):
        spec.hostNetwork = r.flag()
        break
      case delimited(20):
        readContainer(r, spec.sidecarPorts, true)
        break
      default:
        r.skip(tag)
    }
  }
  r.close(end)
}

/** Adds the container's named TCP ports; of an init container only when it restarts always. */
function readContainer(r: ProtobufReader, ports: NamedPort[], init: boolean): void {
  const end = r.end()
  const before = ports.length
  let always = false
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(6)) readPort(r, ports)
    else if (tag === delimited(24)) always = r.text() === 'Always'
    else r.skip(tag)
  }
  r.close(end)
  if (init && !always) ports.length = before
}

function readPort(r: ProtobufReader, ports: NamedPort[]): void {
  const end = r.end()
  let name = ''
  let port = 0
  let protocol = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) name = r.text()
    else if (tag === numeric(3)) port = r.int32()
    else if (tag === delimited(4)) protocol = r.text()
    else r.skip(tag)
  }
  r.close(end)
  if (name !== '' && (protocol === '' || protocol === 'TCP')) ports.push({ name, port })
}

function readStatus(r: ProtobufReader, status: Status): void {
  const end = r.end()
  while (r.pos < end) {
    const tag = r.varint()
    switch (tag) {
      case delimited(1):
        status.phase = internString(r.text())
        break
      case delimited(2):
        if (isReady(r)) status.ready = true
        break
      case delimited(6):
        status.ip = r.text()
        break
      case delimited(12):
        status.ips.push(readIp(r))
        break
      default:
        r.skip(tag)
    }
  }
  r.close(end)
}

function isReady(r: ProtobufReader): boolean {
  const end = r.end()
  let type = ''
  let status = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) type = r.text()
    else if (tag === delimited(2)) status = r.text()
    else r.skip(tag)
  }
  r.close(end)
  return type === 'Ready' && status === 'True'
}

function readIp(r: ProtobufReader): string {
  const end = r.end()
  let ip = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) ip = r.text()
    else r.skip(tag)
  }
  r.close(end)
  return ip
}
