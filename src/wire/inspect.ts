// SPDX-License-Identifier: Apache-2.0
// The service `addressd.inspect.v1.Inspect` for both of its ends: its messages as TypeScript shapes, and the definition that gRPC needs.
// Shapes follow proto/addressd/inspect/v1/inspect.proto in camelCase; a field left out of what is written is its default.

import { loadSync } from './proto-loader.js'
import type { ServiceDefinition } from '@grpc/grpc-js'
import { fileURLToPath } from 'node:url'
import type { StructMessage } from './struct.js'

export interface WhatIsRequest {
  readonly question: string
  readonly watch: boolean
}

export interface WhatIsAnswer {
  readonly question: string
  readonly form: FormName
  readonly found: readonly FindingRow[]
}

export type FormName =
  'FORM_UNSPECIFIED' | 'FORM_IP' | 'FORM_RANGE' | 'FORM_KEY' | 'FORM_HOSTNAME' | 'FORM_NAME' | 'FORM_UID'

/** Exactly one of workload, service and policy. */
export interface FindingRow {
  readonly workload?: WorkloadRow | null
  readonly service?: ServiceRow | null
  readonly policy?: PolicyRow | null
  readonly by: string
  readonly why: readonly string[]
  readonly resource: StructMessage | null
  readonly version: string
  readonly aliases: readonly string[]
}

export interface WorkloadRow {
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly cluster: string
  readonly network: string
  readonly addresses: readonly string[]
  readonly hostname: string
  readonly node: string
  readonly serviceAccount: string
  readonly ownerType: string
  readonly ownerName: string
  readonly protocol: string
  readonly hostNetwork: boolean
  readonly healthy: boolean
  readonly waypoint: WaypointRow | null
  readonly services: readonly MembershipRow[]
  readonly policies: readonly string[]
  readonly resource: StructMessage | null
}

export interface MembershipRow {
  readonly service: string
  readonly addresses: readonly string[]
  readonly ports: readonly PortPairRow[]
}

export interface PortPairRow {
  readonly port: number
  readonly targetPort: number
}

export interface ServiceRow {
  readonly namespace: string
  readonly name: string
  readonly hostname: string
  readonly addresses: readonly string[]
  readonly ports: readonly PortPairRow[]
  readonly waypoint: WaypointRow | null
  readonly healthyMembers: number
  readonly membersTotal: number
  readonly members: readonly WorkloadRow[]
  readonly resource: StructMessage | null
}

export interface PolicyRow {
  readonly namespace: string
  readonly name: string
  readonly action: string
  readonly scope: string
  readonly resource: StructMessage | null
}

export interface WaypointRow {
  readonly key: string
  /** Empty when no service is behind the key. */
  readonly name: string
}

export interface ListRequest {
  readonly namespace: string
  readonly node: string
  readonly whole: boolean
}

export interface ClientRow {
  readonly connectionId: string
  readonly name: string
  readonly namespace: string
  readonly type: string
  readonly cluster: string
  readonly node: string
  readonly version: string
  readonly address: string
  readonly connectedMs: number
  readonly watches: readonly WatchRow[]
}

export interface WatchRow {
  readonly typeUrl: string
  readonly state: string
  readonly sentMsAgo: number
  readonly lastError: string
  readonly wildcard: boolean
  readonly names: number
}

/** Full name of the service, as gRPC paths and reflection know it. */
export const INSPECT_SERVICE = 'addressd.inspect.v1.Inspect'

const protoFolder = fileURLToPath(new URL('../../proto', import.meta.url))

/** Reads the definition from the .proto file; some milliseconds, so once a program. */
export function loadInspectService(): ServiceDefinition {
  const loaded = loadSync('addressd/inspect/v1/inspect.proto', {
    includeDirs: [protoFolder],
    longs: Number,
    enums: String,
    defaults: true,
    oneofs: true,
  })
  return loaded[INSPECT_SERVICE] as ServiceDefinition
}
