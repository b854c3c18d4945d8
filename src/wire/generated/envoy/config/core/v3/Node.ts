// Original file: proto/envoy/config/core/v3/base.proto

import type { Struct as _google_protobuf_Struct, Struct__Output as _google_protobuf_Struct__Output } from '../../../../google/protobuf/Struct.js';
import type { Locality as _envoy_config_core_v3_Locality, Locality__Output as _envoy_config_core_v3_Locality__Output } from '../../../../envoy/config/core/v3/Locality.js';

export interface Node {
  'id'?: (string);
  'cluster'?: (string);
  'metadata'?: (_google_protobuf_Struct | null);
  'locality'?: (_envoy_config_core_v3_Locality | null);
  'user_agent_name'?: (string);
  'user_agent_version'?: (string);
}

export interface Node__Output {
  'id'?: (string);
  'cluster'?: (string);
  'metadata'?: (_google_protobuf_Struct__Output);
  'locality'?: (_envoy_config_core_v3_Locality__Output);
  'user_agent_name'?: (string);
  'user_agent_version'?: (string);
}
