// SPDX-License-Identifier: Apache-2.0
// One open watch of the fake API server: which changes it shows, in which encoding, and how it ends.

import type { ServerResponse } from 'node:http'
import type { Clock, Timer } from '../../src/base/clock.js'
import { toProtobufEvent } from './fake-apiserver-protobuf.js'
import { matchesFields, matchesLabels, type Json, type StoredChange } from './fake-apiserver-store.js'

export interface Selectors {
  readonly namespace: string | undefined
  readonly fields: string
  readonly labels: string
}

export function isSelected(object: Json | undefined, selectors: Selectors): boolean {
  if (object === undefined) return false
  if (selectors.namespace !== undefined && object.metadata.namespace !== selectors.namespace) return false
  return matchesFields(object, selectors.fields) && matchesLabels(object, selectors.labels)
}

export interface WatchRequest {
  readonly kind: string
  readonly apiVersion: string
  readonly selectors: Selectors
  readonly bookmarks: boolean
  readonly timeoutSeconds: number
  readonly protobuf: boolean
}

export class FakeWatch {
  readonly #request: WatchRequest
  readonly #response: ServerResponse
  readonly #timers: Timer[] = []
  #silent = false
  /** Version of the last event written. */
  sent = 0

  constructor(request: WatchRequest, response: ServerResponse, clock: Clock) {
    this.#request = request
    this.#response = response
    const type = request.protobuf ? 'application/vnd.kubernetes.protobuf;stream=watch' : 'application/json'
    response.writeHead(200, { 'content-type': type })
    response.flushHeaders()
    if (request.timeoutSeconds > 0) this.#timers.push(clock.after(request.timeoutSeconds * 1000, () => this.close()))
    response.on('close', () => this.stop())
  }

  get kind(): string {
    return this.#request.kind
  }

  get open(): boolean {
    return !this.#response.writableEnded && !this.#response.destroyed
  }

  /** Shows a change, as the selectors see it: an object that leaves them is deleted, one that enters is added. */
  show(change: StoredChange): void {
    const now = !change.deleted && isSelected(change.object, this.#request.selectors)
    const before = isSelected(change.before, this.#request.selectors)
    if (!now && !before) return
    this.#write(now ? (before ? 'MODIFIED' : 'ADDED') : 'DELETED', change.object)
    if (!this.#silent) this.sent = change.version
  }

  /** Shows how far the server is, to whoever asked for bookmarks. */
  bookmark(version: number): void {
    if (!this.#request.bookmarks) return
    this.#write('BOOKMARK', { metadata: { resourceVersion: String(version), creationTimestamp: null } })
    if (!this.#silent) this.sent = Math.max(this.sent, version)
  }

  /** An in-stream error, then the end. */
  fail(status: Json): void {
    this.#write('ERROR', status)
    this.close()
  }

  /** Writes these bytes as they are. */
  writeRaw(bytes: string | Buffer): void {
    this.#response.write(bytes)
  }

  /** From now on nothing more is sent, and it stays open. */
  silence(): void {
    this.#silent = true
    this.#stopTimers()
  }

  close(): void {
    this.#stopTimers()
    this.#response.end()
  }

  reset(): void {
    this.#stopTimers()
    this.#response.socket?.resetAndDestroy()
  }

  stop(): void {
    this.#stopTimers()
  }

  #stopTimers(): void {
    for (const timer of this.#timers.splice(0)) timer.cancel()
  }

  #write(type: string, object: Json): void {
    if (this.#silent || !this.open) return
    const { kind, apiVersion, protobuf } = this.#request
    const shown = type === 'ERROR' ? object : { apiVersion, kind, ...object }
    this.#response.write(protobuf ? toProtobufEvent(type, kind, shown) : `${JSON.stringify({ type, object: shown })}\n`)
  }
}
