// Original file: proto/istio/auth/ca.proto

import type { Struct as _google_protobuf_Struct, Struct__Output as _google_protobuf_Struct__Output } from '../../../google/protobuf/Struct.js';
import type { Long } from '@grpc/proto-loader';

export interface IstioCertificateRequest {
  'csr'?: (string);
  'validity_duration'?: (number | string | Long);
  'metadata'?: (_google_protobuf_Struct | null);
}

export interface IstioCertificateRequest__Output {
  'csr'?: (string);
  'validity_duration'?: (string);
  'metadata'?: (_google_protobuf_Struct__Output);
}
