// SPDX-License-Identifier: Apache-2.0
// The JSON encoding of lists and watches. For every kind; the only one for kinds that a CRD defines.

import { InvalidInput, formatError } from '../base/errors.js'
import { Part, isJsonObject } from './part.js'
import { formatSubject, projectObject } from './project.js'
import { clusterKey, objectKey, type Kind } from './records.js'
import { resourceTypes } from './resources.js'
import type { Encoding, Item, Page, ServerStatus, WatchDecoder, WatchEvent } from './wire.js'

export const jsonEncoding: Encoding = {
  contentType: 'application/json',
  decodePage: decodeJsonPage,
  decodeStatus: decodeJsonStatus,
  createWatchDecoder: (kind, cluster) => new JsonWatchDecoder(kind, cluster),
}

function decodeJsonPage<K extends Kind>(kind: K, bytes: Buffer, cluster: string): Page<K> {
  const list = new Part(parseJson(bytes.toString('utf8'), `list of ${kind}`), '', `list of ${kind}`)
  const meta = list.part('metadata')
  const items = (list.list('items') ?? []).map((object) => toItem(kind, object, cluster))
  return { items, version: meta?.text('resourceVersion') ?? '', next: meta?.text('continue') ?? '' }
}

function parseJson(text: string, subject: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new InvalidInput(`${subject}: it is not JSON: ${formatError(error)}`, error)
  }
  if (!isJsonObject(value)) throw new InvalidInput(`${subject}: it is not a JSON object`)
  return value
}

function toItem<K extends Kind>(kind: K, object: unknown, cluster: string): Item<K> {
  const meta = isJsonObject(object) && isJsonObject(object.metadata) ? object.metadata : {}
  const version = typeof meta.resourceVersion === 'string' ? meta.resourceVersion : ''
  try {
    return { ...projectObject(kind, object, cluster), version }
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    const uid = typeof meta.uid === 'string' ? meta.uid : undefined
    return { key: selectKey(kind, meta, cluster), version, uid, record: undefined, error }
  }
}

function selectKey(kind: Kind, meta: Readonly<Record<string, unknown>>, cluster: string): string | undefined {
  const { name, namespace } = meta
  if (typeof name !== 'string' || name === '') return undefined
  if (!resourceTypes[kind].namespaced) return clusterKey(cluster, name)
  return typeof namespace === 'string' && namespace !== '' ? objectKey(cluster, namespace, name) : undefined
}

function decodeJsonStatus(bytes: Buffer): ServerStatus {
  try {
    return toStatus(parseJson(bytes.toString('utf8'), 'status'))
  } catch {
    // Proxies in between answer in plain text: show what they said.
    return { code: 0, reason: '', message: bytes.subarray(0, 256).toString('utf8').trim() }
  }
}

function toStatus(object: unknown): ServerStatus {
  const raw = isJsonObject(object) ? object : {}
  return {
    code: typeof raw.code === 'number' ? raw.code : 0,
    reason: typeof raw.reason === 'string' ? raw.reason : '',
    message: typeof raw.message === 'string' ? raw.message : '',
  }
}

const newline = 10
/** No object of a real API server comes near this. */
const longestEvent = 64 * 1024 * 1024

/** One JSON object a line. */
class JsonWatchDecoder<K extends Kind> implements WatchDecoder<K> {
  #pieces: Buffer[] = []
  #length = 0

  constructor(
    readonly kind: K,
    readonly cluster: string,
  ) {}

  push(chunk: Buffer): readonly WatchEvent<K>[] {
    const out: WatchEvent<K>[] = []
    let from = 0
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      this.#pieces.push(chunk.subarray(from, at))
      const line = (this.#pieces.length === 1 ? chunk.subarray(from, at) : Buffer.concat(this.#pieces)).toString('utf8')
      this.#pieces = []
      this.#length = 0
      from = at + 1
      if (line.trim() !== '') out.push(this.#toEvent(line))
    }
    if (from < chunk.length) {
      this.#pieces.push(chunk.subarray(from))
      this.#length += chunk.length - from
      if (this.#length > longestEvent) throw new InvalidInput(`watch of ${this.kind}: an event is too long`)
    }
    return out
  }

  #toEvent(line: string): WatchEvent<K> {
    const subject = `watch of ${this.kind}`
    const event = parseJson(line, subject)
    switch (event.type) {
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        return { type: event.type, item: toItem(this.kind, event.object, this.cluster) }
      case 'BOOKMARK': {
        const meta = isJsonObject(event.object) ? event.object.metadata : undefined
        const version = isJsonObject(meta) ? meta.resourceVersion : undefined
        if (typeof version !== 'string') throw new InvalidInput(`${subject}: a bookmark has no version`)
        return { type: 'BOOKMARK', version }
      }
      case 'ERROR':
        return { type: 'ERROR', status: toStatus(event.object) }
      default:
        throw new InvalidInput(`${subject}: ${formatSubject(this.kind, event.object)} has an unknown event type`)
    }
  }
}
