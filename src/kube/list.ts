// SPDX-License-Identifier: Apache-2.0
// A whole list of one kind, page by page. For the reflector. All or nothing: a list whose later page fails is an error, never a shorter list.

import type { Clock } from '../base/clock.js'
import { Retryable } from '../base/errors.js'
import { readBody, type KubeApi } from './api.js'
import { kubeLimits } from './limits.js'
import type { Kind } from './records.js'
import { Gone, selectEncoding, sendChecked, withDeadline } from './requests.js'
import { formatResourcePath, resourceTypes } from './resources.js'
import type { Item } from './wire.js'
import { jsonEncoding } from './wire-json.js'
import { isProtobufKind, protobufEncoding } from './wire-protobuf.js'

/** What of a kind is read, and from where. */
export interface Selection<K extends Kind> {
  readonly api: KubeApi
  readonly kind: K
  readonly cluster: string
  /** Only this namespace; all of them when left out. */
  readonly namespace?: string
  /** Kubernetes field selector, such as `status.phase!=Failed`. */
  readonly fieldSelector?: string
}

export interface Listed<K extends Kind> {
  readonly items: readonly Item<K>[]
  /** Where a watch goes on. */
  readonly version: string
}

/** A page token ran out of time in the middle of a list. */
export class ListExpired extends Retryable {}

/** Media types to ask for. The server takes the first that it has. */
export function selectAccept(kind: Kind): string {
  return isProtobufKind(kind)
    ? `${protobufEncoding.contentType}, ${jsonEncoding.contentType}`
    : jsonEncoding.contentType
}

/** Path and query of a kind's collection. */
export function formatSelection<K extends Kind>(
  selection: Selection<K>,
  apiVersion: string,
  query: Readonly<Record<string, string>>,
): string {
  const { kind, namespace, fieldSelector } = selection
  const path = formatResourcePath(resourceTypes[kind], apiVersion, namespace === undefined ? {} : { namespace })
  const all = new URLSearchParams({ ...query, ...(fieldSelector === undefined ? {} : { fieldSelector }) })
  return `${path}?${all.toString()}`
}

export interface ListOptions {
  readonly clock: Clock
  /** Version of the kind's API group to ask for. */
  readonly apiVersion: string
  /** 0 asks for everything in one piece. */
  readonly pageSize: number
  readonly signal: AbortSignal
}

/** Lists everything. Rejects with HttpFailure, ListExpired, Retryable, or InvalidInput when the answer cannot be decoded. */
export async function listAll<K extends Kind>(selection: Selection<K>, options: ListOptions): Promise<Listed<K>> {
  const { kind, cluster, api } = selection
  const items: Item<K>[] = []
  let version: string | undefined
  let next = ''
  do {
    const query: Record<string, string> = {}
    if (options.pageSize > 0) query.limit = String(options.pageSize)
    if (next !== '') query.continue = next
    const path = formatSelection(selection, options.apiVersion, query)
    const token = next
    const page = await withDeadline(options.clock, kubeLimits.listTimeoutMs, options.signal, async (signal) => {
      try {
        const response = await sendChecked(api, { path, accept: selectAccept(kind) }, `list ${kind}`, signal)
        return selectEncoding(response).decodePage(kind, await readBody(response), cluster)
      } catch (error) {
        throw error instanceof Gone && token !== '' ? new ListExpired(error.message, error) : error
      }
    })
    for (const item of page.items) items.push(item)
    // The first page's version: a watch from there cannot miss what happened while the pages were read.
    version ??= page.version
    next = page.next
  } while (next !== '')
  return { items, version }
}
