import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { ListValue as _google_protobuf_ListValue, ListValue__Output as _google_protobuf_ListValue__Output } from './google/protobuf/ListValue.js';
import type { Struct as _google_protobuf_Struct, Struct__Output as _google_protobuf_Struct__Output } from './google/protobuf/Struct.js';
import type { Value as _google_protobuf_Value, Value__Output as _google_protobuf_Value__Output } from './google/protobuf/Value.js';
import type { IstioCertificateRequest as _istio_v1_auth_IstioCertificateRequest, IstioCertificateRequest__Output as _istio_v1_auth_IstioCertificateRequest__Output } from './istio/v1/auth/IstioCertificateRequest.js';
import type { IstioCertificateResponse as _istio_v1_auth_IstioCertificateResponse, IstioCertificateResponse__Output as _istio_v1_auth_IstioCertificateResponse__Output } from './istio/v1/auth/IstioCertificateResponse.js';
import type { IstioCertificateServiceClient as _istio_v1_auth_IstioCertificateServiceClient, IstioCertificateServiceDefinition as _istio_v1_auth_IstioCertificateServiceDefinition } from './istio/v1/auth/IstioCertificateService.js';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  google: {
    protobuf: {
      ListValue: MessageTypeDefinition<_google_protobuf_ListValue, _google_protobuf_ListValue__Output>
      NullValue: EnumTypeDefinition
      Struct: MessageTypeDefinition<_google_protobuf_Struct, _google_protobuf_Struct__Output>
      Value: MessageTypeDefinition<_google_protobuf_Value, _google_protobuf_Value__Output>
    }
  }
  istio: {
    v1: {
      auth: {
        IstioCertificateRequest: MessageTypeDefinition<_istio_v1_auth_IstioCertificateRequest, _istio_v1_auth_IstioCertificateRequest__Output>
        IstioCertificateResponse: MessageTypeDefinition<_istio_v1_auth_IstioCertificateResponse, _istio_v1_auth_IstioCertificateResponse__Output>
        IstioCertificateService: SubtypeConstructor<typeof grpc.Client, _istio_v1_auth_IstioCertificateServiceClient> & { service: _istio_v1_auth_IstioCertificateServiceDefinition }
      }
    }
  }
}

