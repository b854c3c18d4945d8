// SPDX-License-Identifier: Apache-2.0
// The service `istio.v1.auth.IstioCertificateService` for both of its ends: the definition that gRPC needs, with its generated types. Loaded at the first call.

import type { ServiceDefinition } from '@grpc/grpc-js'
import { loadSync } from './proto-loader.js'
import type { ProtoGrpcType } from './generated/ca.js'
import { protoFolder } from './protos.js'

export type { IstioCertificateRequest__Output as CertificateRequest } from './generated/istio/v1/auth/IstioCertificateRequest.js'
export type { IstioCertificateResponse as CertificateResponse } from './generated/istio/v1/auth/IstioCertificateResponse.js'

export const CERTIFICATE_SERVICE = 'istio.v1.auth.IstioCertificateService'

type Service = ServiceDefinition & ProtoGrpcType['istio']['v1']['auth']['IstioCertificateService']['service']

let loaded: Service | undefined

/** Some milliseconds at the first call, nothing later. Numbers of 64 bits are text. */
export function loadCertificateService(): Service {
  loaded ??= loadSync('istio/auth/ca.proto', {
    includeDirs: [protoFolder],
    keepCase: true,
    longs: String,
    enums: String,
    oneofs: true,
  })[CERTIFICATE_SERVICE] as unknown as Service
  return loaded
}
