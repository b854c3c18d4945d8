// Original file: proto/istio/auth/ca.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { IstioCertificateRequest as _istio_v1_auth_IstioCertificateRequest, IstioCertificateRequest__Output as _istio_v1_auth_IstioCertificateRequest__Output } from '../../../istio/v1/auth/IstioCertificateRequest.js';
import type { IstioCertificateResponse as _istio_v1_auth_IstioCertificateResponse, IstioCertificateResponse__Output as _istio_v1_auth_IstioCertificateResponse__Output } from '../../../istio/v1/auth/IstioCertificateResponse.js';

export interface IstioCertificateServiceClient extends grpc.Client {
  CreateCertificate(argument: _istio_v1_auth_IstioCertificateRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  CreateCertificate(argument: _istio_v1_auth_IstioCertificateRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  CreateCertificate(argument: _istio_v1_auth_IstioCertificateRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  CreateCertificate(argument: _istio_v1_auth_IstioCertificateRequest, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  createCertificate(argument: _istio_v1_auth_IstioCertificateRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  createCertificate(argument: _istio_v1_auth_IstioCertificateRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  createCertificate(argument: _istio_v1_auth_IstioCertificateRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  createCertificate(argument: _istio_v1_auth_IstioCertificateRequest, callback: grpc.requestCallback<_istio_v1_auth_IstioCertificateResponse__Output>): grpc.ClientUnaryCall;
  
}

export interface IstioCertificateServiceHandlers extends grpc.UntypedServiceImplementation {
  CreateCertificate: grpc.handleUnaryCall<_istio_v1_auth_IstioCertificateRequest__Output, _istio_v1_auth_IstioCertificateResponse>;
  
}

export interface IstioCertificateServiceDefinition extends grpc.ServiceDefinition {
  CreateCertificate: MethodDefinition<_istio_v1_auth_IstioCertificateRequest, _istio_v1_auth_IstioCertificateResponse, _istio_v1_auth_IstioCertificateRequest__Output, _istio_v1_auth_IstioCertificateResponse__Output>
}
