// SPDX-License-Identifier: Apache-2.0
// Node, Namespace and ConfigMap from protobuf -> the rows that project-cluster.ts makes from JSON. Field numbers: k8s.io/api/core/v1.

import { internString } from './intern.js'
import { toNodeRecord } from './project-cluster.js'
import { keepEntry, type WireMeta } from './protobuf-meta.js'
import { delimited, type ProtobufReader } from './protobuf-reader.js'
import type { ConfigMapRecord, NamespaceRecord, NodeRecord } from './records.js'

/** Reads the taints of a Node, whose metadata was read before, up to `end`. */
export function readNode(r: ProtobufReader, end: number, meta: WireMeta, cluster: string): NodeRecord {
  const taints: string[] = []
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(2)) readTaints(r, taints)
    else r.skip(tag)
  }
  r.close(end)
  return toNodeRecord(cluster, internString(meta.name), meta.labels, taints)
}

/** Keys of the taints of a NodeSpec. */
function readTaints(r: ProtobufReader, taints: string[]): void {
  const end = r.end()
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(5)) taints.push(readTaintKey(r))
    else r.skip(tag)
  }
  r.close(end)
}

function readTaintKey(r: ProtobufReader): string {
  const end = r.end()
  let key = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) key = internString(r.text())
    else r.skip(tag)
  }
  r.close(end)
  return key
}

/** A Namespace is its metadata; the rest up to `end` is stepped over. */
export function readNamespace(r: ProtobufReader, end: number, meta: WireMeta, cluster: string): NamespaceRecord {
  r.pos = end
  const { labels, annotations } = meta
  return Object.freeze({ cluster, name: internString(meta.name), labels, annotations })
}

/** Reads the rest of a ConfigMap, whose metadata was read before, up to `end`. */
export function readConfigMap(r: ProtobufReader, end: number, meta: WireMeta, cluster: string): ConfigMapRecord {
  const mesh: string[] = []
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(2)) keepEntry(r, ['mesh'], mesh)
    else r.skip(tag)
  }
  r.close(end)
  return Object.freeze({ cluster, namespace: meta.namespace, name: meta.name, mesh: mesh[1] })
}
