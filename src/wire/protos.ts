// SPDX-License-Identifier: Apache-2.0
// The wire definitions under proto/, loaded once a process, with their generated types: codecs for messages, definitions for grpc-js services and clients.
// For everything that is not hot; the hot messages have codecs of their own. Field names are those of the .proto files.

import type { ServiceDefinition } from '@grpc/grpc-js'
import { loadSync } from './proto-loader.js'
import type { MessageTypeDefinition, PackageDefinition } from '@grpc/proto-loader'
import { fileURLToPath } from 'node:url'
import { InvalidInput } from '../base/errors.js'
import type { ProtoGrpcType as AdsTypes } from './generated/ads.js'
import type { ProtoGrpcType as AuthorizationTypes } from './generated/authorization.js'
import type { ProtoGrpcType as StatusTypes } from './generated/csds.js'
import type { ProtoGrpcType as HealthTypes } from './generated/health.js'
import type { ProtoGrpcType as WorkloadTypes } from './generated/workload.js'

/** Where the definitions are: in the package root, seen from the sources and from the built code alike. */
export const protoFolder = fileURLToPath(new URL('../../proto', import.meta.url))

type Discovery = AdsTypes['envoy']['service']['discovery']['v3']
type In<T> = T extends MessageTypeDefinition<infer Input, object> ? Input : never
type Out<T> = T extends MessageTypeDefinition<object, infer Output> ? Output : never

/** Encodes and decodes one message type. */
export interface Codec<Input, Output> {
  encode(message: Input): Uint8Array
  /** Throws InvalidInput, naming the type, on bytes that are none. Absent fields are absent. */
  decode(bytes: Uint8Array): Output
}
type CodecOf<T> = Codec<In<T>, Out<T>>

export interface Protos {
  readonly services: {
    readonly aggregatedDiscovery: ServiceDefinition & Discovery['AggregatedDiscoveryService']['service']
    readonly health: ServiceDefinition & HealthTypes['grpc']['health']['v1']['Health']['service']
  }
  readonly messages: {
    readonly address: CodecOf<WorkloadTypes['istio']['workload']['Address']>
    readonly workload: CodecOf<WorkloadTypes['istio']['workload']['Workload']>
    readonly authorization: CodecOf<AuthorizationTypes['istio']['security']['Authorization']>
    readonly resource: CodecOf<Discovery['Resource']>
    readonly deltaDiscoveryRequest: CodecOf<Discovery['DeltaDiscoveryRequest']>
    readonly deltaDiscoveryResponse: CodecOf<Discovery['DeltaDiscoveryResponse']>
    readonly discoveryRequest: CodecOf<Discovery['DiscoveryRequest']>
    readonly discoveryResponse: CodecOf<Discovery['DiscoveryResponse']>
    readonly clientConfig: CodecOf<StatusTypes['envoy']['service']['status']['v3']['ClientConfig']>
  }
}

const files = [
  'envoy/service/discovery/v3/ads.proto',
  'envoy/service/status/v3/csds.proto',
  'grpc/health/v1/health.proto',
  'istio/security/authorization.proto',
  'istio/workload/workload.proto',
]

let loaded: Protos | undefined

/** Some tens of milliseconds at the first call, nothing later. */
export function loadProtos(): Protos {
  loaded ??= readProtos()
  return loaded
}

function readProtos(): Protos {
  // Must agree with the options under which the types are generated, see proto/generate.mjs.
  const all = loadSync(files, {
    includeDirs: [protoFolder],
    keepCase: true,
    longs: String,
    enums: String,
    oneofs: true,
  })
  const discovery = 'envoy.service.discovery.v3'
  return {
    services: {
      aggregatedDiscovery: all[
        `${discovery}.AggregatedDiscoveryService`
      ] as unknown as Protos['services']['aggregatedDiscovery'],
      health: all['grpc.health.v1.Health'] as unknown as Protos['services']['health'],
    },
    messages: {
      address: toCodec(all, 'istio.workload.Address'),
      workload: toCodec(all, 'istio.workload.Workload'),
      authorization: toCodec(all, 'istio.security.Authorization'),
      resource: toCodec(all, `${discovery}.Resource`),
      deltaDiscoveryRequest: toCodec(all, `${discovery}.DeltaDiscoveryRequest`),
      deltaDiscoveryResponse: toCodec(all, `${discovery}.DeltaDiscoveryResponse`),
      discoveryRequest: toCodec(all, `${discovery}.DiscoveryRequest`),
      discoveryResponse: toCodec(all, `${discovery}.DiscoveryResponse`),
      clientConfig: toCodec(all, 'envoy.service.status.v3.ClientConfig'),
    },
  }
}

function toCodec<Input extends object, Output extends object>(
  all: PackageDefinition,
  name: string,
): Codec<Input, Output> {
  const { serialize, deserialize } = all[name] as unknown as MessageTypeDefinition<Input, Output>
  return {
    encode: serialize,
    decode(bytes) {
      try {
        return deserialize(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
      } catch (error) {
        throw new InvalidInput(`These ${bytes.length} bytes are no ${name}`, error)
      }
    },
  }
}
