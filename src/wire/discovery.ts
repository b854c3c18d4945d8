// SPDX-License-Identifier: Apache-2.0
// Requests of the discovery service (delta and state of the world) from bytes. For xds. Strict about wire types, lengths and UTF-8; knows nothing of what a request means.

import { shortenText } from '../base/short-text.js'
import { InitialVersions } from './initial-versions.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from './messages.js'
import { readNode } from './node-decoder.js'
import type { NodeMessage } from './node-decoder.js'
import { Reader } from './reader.js'

/** The parts of `google.rpc.Status` that are read. Presence is what matters: clients reject with code 0 too. */
export interface StatusMessage {
  readonly code: number
  /** Shortened. */
  readonly message: string
}

export interface DeltaRequest {
  readonly node: NodeMessage | undefined
  readonly typeUrl: string
  readonly subscribe: readonly string[]
  readonly unsubscribe: readonly string[]
  /** Reads the request's bytes when asked: keep those alive and unchanged as long. */
  readonly initialVersions: InitialVersions
  readonly responseNonce: string
  /** Present when the client rejects a response. */
  readonly error: StatusMessage | undefined
}

export interface DiscoveryRequest {
  readonly node: NodeMessage | undefined
  readonly typeUrl: string
  readonly versionInfo: string
  readonly names: readonly string[]
  readonly responseNonce: string
  readonly error: StatusMessage | undefined
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** Type URLs and reasons of rejections are kept as long as their stream, and logged. */
const longestTypeUrl = 1_024
const longestReason = 4_096

const noNames: readonly string[] = Object.freeze([])

/** Types that come with nearly every request, so that no string is made for them. */
const knownTypes = [ADDRESS_TYPE, WORKLOAD_TYPE, AUTHORIZATION_TYPE].map((typeUrl) => ({
  typeUrl,
  bytes: Buffer.from(typeUrl),
}))

/** Reads a DeltaDiscoveryRequest. Throws ProtocolError (INTERNAL) that names the field on bytes that are none. */
export function decodeDeltaRequest(bytes: Uint8Array): DeltaRequest {
  const request: Mutable<DeltaRequest> = {
    node: undefined,
    typeUrl: '',
    subscribe: noNames,
    unsubscribe: noNames,
    initialVersions: InitialVersions.none,
    responseNonce: '',
    error: undefined,
  }
  const subscribe: string[] = []
  const unsubscribe: string[] = []
  const reader = new Reader(bytes, 'DeltaDiscoveryRequest')
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        request.node = readNode(reader.message('DeltaDiscoveryRequest.node'))
        break
      case 2:
        request.typeUrl = readTypeUrl(reader)
        break
      case 3:
        subscribe.push(reader.string())
        break
      case 4:
        unsubscribe.push(reader.string())
        break
      case 5:
        if (request.initialVersions === InitialVersions.none) request.initialVersions = new InitialVersions(bytes)
        readInitialVersion(reader, request.initialVersions)
        break
      case 6:
        request.responseNonce = reader.string()
        break
      case 7:
        request.error = readStatus(reader.message('DeltaDiscoveryRequest.error_detail'))
        break
      default:
        reader.skip()
    }
  }
  if (subscribe.length > 0) request.subscribe = subscribe
  if (unsubscribe.length > 0) request.unsubscribe = unsubscribe
  return request
}

/** Reads a DiscoveryRequest (state of the world). Throws ProtocolError (INTERNAL) that names the field on bytes that are none. */
export function decodeDiscoveryRequest(bytes: Uint8Array): DiscoveryRequest {
  const names: string[] = []
  const request: Mutable<DiscoveryRequest> = {
    node: undefined,
    typeUrl: '',
    versionInfo: '',
    names,
    responseNonce: '',
    error: undefined,
  }
  const reader = new Reader(bytes, 'DiscoveryRequest')
  while (reader.next()) {
    if (reader.field === 1) request.versionInfo = reader.string()
    else if (reader.field === 2) request.node = readNode(reader.message('DiscoveryRequest.node'))
    else if (reader.field === 3) names.push(reader.string())
    else if (reader.field === 4) request.typeUrl = readTypeUrl(reader)
    else if (reader.field === 5) request.responseNonce = reader.string()
    else if (reader.field === 6) request.error = readStatus(reader.message('DiscoveryRequest.error_detail'))
    else reader.skip()
  }
  return request
}

function readTypeUrl(reader: Reader): string {
  for (const known of knownTypes) {
    if (reader.takesBytes(known.bytes)) return known.typeUrl
  }
  const typeUrl = reader.string()
  if (typeUrl.length > longestTypeUrl) throw reader.failure(`has a type URL of ${typeUrl.length} characters`)
  return typeUrl
}

function readInitialVersion(reader: Reader, versions: InitialVersions): void {
  const entry = reader.message('DeltaDiscoveryRequest.initial_resource_versions')
  let name = 0
  let nameEnd = 0
  let version = 0
  let versionEnd = 0
  while (entry.next()) {
    if (entry.field === 1) {
      nameEnd = entry.textEnd()
      name = nameEnd - entry.length
    } else if (entry.field === 2) {
      versionEnd = entry.textEnd()
      version = versionEnd - entry.length
    } else entry.skip()
  }
  versions.add(name, nameEnd, version, versionEnd)
}

function readStatus(reader: Reader): StatusMessage {
  const status: Mutable<StatusMessage> = { code: 0, message: '' }
  while (reader.next()) {
    if (reader.field === 1) status.code = reader.int32()
    else if (reader.field === 2) status.message = shortenText(reader.string(), longestReason)
    else reader.skip()
  }
  return status
}
