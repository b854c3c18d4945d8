// SPDX-License-Identifier: Apache-2.0
// Kubernetes' ObjectMeta from protobuf, what the rows keep of it. Field numbers are those of k8s.io/apimachinery. Steps over managedFields
// without looking.

import { internLabels, internOwner, internString } from './intern.js'
import { delimited, numeric, type ProtobufReader } from './protobuf-reader.js'
import type { Labels } from './records.js'

export interface WireMeta {
  name: string
  generated: boolean
  namespace: string
  uid: string
  version: string
  created: number
  deleting: boolean
  labels: Labels | undefined
  annotations: Labels | undefined
  owner: { readonly kind: string; readonly name: string } | undefined
}

const bound = 16_384
/** Label sets by their bytes as they stand in the message: pods of one template come with the same bytes. */
const labelBytes = new Map<string, Labels>()

/** Reads an ObjectMeta that starts at the cursor with its length. `annotations` are the keys to keep. */
export function readMeta(r: ProtobufReader, annotations: readonly string[]): WireMeta {
  const meta: WireMeta = {
    name: '',
    generated: false,
    namespace: '',
    uid: '',
    version: '',
    created: 0,
    deleting: false,
    labels: undefined,
    annotations: undefined,
    owner: undefined,
  }
  const kept: string[] = []
  const end = r.end()
  while (r.pos < end) {
    const start = r.pos
    const tag = r.varint()
    switch (tag) {
      case delimited(1):
        meta.name = r.text()
        break
      case delimited(2):
        meta.generated = r.text() !== ''
        break
      case delimited(3):
        meta.namespace = internString(r.text())
        break
      case delimited(5):
        meta.uid = r.text()
        break
      case delimited(6):
        meta.version = r.text()
        break
      case delimited(8):
        meta.created = readSeconds(r)
        break
      case delimited(9):
        meta.deleting = true
        r.skip(tag)
        break
      case delimited(11):
        meta.labels = addLabels(meta.labels, readLabelRun(r, start, end))
        break
      case delimited(12):
        keepEntry(r, annotations, kept)
        break
      case delimited(13):
        meta.owner = readOwner(r, meta.owner)
        break
      default:
        r.skip(tag)
    }
  }
  r.close(end)
  if (kept.length > 0) meta.annotations = internLabels(kept)
  return meta
}

const labelTag = delimited(11)

/** All label entries that follow one another. The cursor is behind the first tag, `start` before it. */
function readLabelRun(r: ProtobufReader, start: number, end: number): Labels {
  r.skip(labelTag)
  while (r.pos < end && r.bytes[r.pos] === labelTag) {
    r.pos++
    r.skip(labelTag)
  }
  const stop = r.pos
  const key = r.bytes.latin1Slice(start, stop)
  const known = labelBytes.get(key)
  if (known !== undefined) return known
  const flat: string[] = []
  r.pos = start
  while (r.pos < stop) {
    r.pos++
    readEntry(r, flat)
  }
  const labels = internLabels(flat)
  if (labelBytes.size >= bound) labelBytes.clear()
  labelBytes.set(key, labels)
  return labels
}

function addLabels(before: Labels | undefined, labels: Labels): Labels {
  return before === undefined ? labels : internLabels([...Object.entries(before), ...Object.entries(labels)].flat())
}

/** One entry of a map of texts, appended to `flat` as key and value. */
export function readEntry(r: ProtobufReader, flat: string[]): void {
  const end = r.end()
  let key = ''
  let value = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) key = r.text()
    else if (tag === delimited(2)) value = r.text()
    else r.skip(tag)
  }
  r.close(end)
  flat.push(key, value)
}

/** Like readEntry, for a few keys: a long value that nobody reads is stepped over. */
export function keepEntry(r: ProtobufReader, wanted: readonly string[], flat: string[]): void {
  const end = r.end()
  let key: string | undefined
  let value = ''
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) {
      key = r.text()
      if (!wanted.includes(key)) {
        r.pos = end
        return
      }
    } else if (tag === delimited(2)) value = r.text()
    else r.skip(tag)
  }
  r.close(end)
  if (key !== undefined) flat.push(key, value)
}

function readSeconds(r: ProtobufReader): number {
  const end = r.end()
  let seconds = 0
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === numeric(1)) seconds = r.varint()
    else r.skip(tag)
  }
  r.close(end)
  return seconds
}

/** The first owner that is a controller wins. */
function readOwner(r: ProtobufReader, before: WireMeta['owner']): WireMeta['owner'] {
  const end = r.end()
  let kind = ''
  let name = ''
  let controller = false
  while (r.pos < end) {
    const tag = r.varint()
    if (tag === delimited(1)) kind = r.text()
    else if (tag === delimited(3)) name = r.text()
    else if (tag === numeric(6)) controller = r.flag()
    else r.skip(tag)
  }
  r.close(end)
  return before ?? (controller ? internOwner(kind, name) : undefined)
}
