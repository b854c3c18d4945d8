// Original file: proto/envoy/service/discovery/v3/discovery.proto

import type { Node as _envoy_config_core_v3_Node, Node__Output as _envoy_config_core_v3_Node__Output } from '../../../../envoy/config/core/v3/Node.js';
import type { Status as _google_rpc_Status, Status__Output as _google_rpc_Status__Output } from '../../../../google/rpc/Status.js';

export interface DeltaDiscoveryRequest {
  'node'?: (_envoy_config_core_v3_Node | null);
  'type_url'?: (string);
  'resource_names_subscribe'?: (string)[];
  'resource_names_unsubscribe'?: (string)[];
  'initial_resource_versions'?: ({[key: string]: string});
  'response_nonce'?: (string);
  'error_detail'?: (_google_rpc_Status | null);
}

export interface DeltaDiscoveryRequest__Output {
  'node'?: (_envoy_config_core_v3_Node__Output);
  'type_url'?: (string);
  'resource_names_subscribe'?: (string)[];
  'resource_names_unsubscribe'?: (string)[];
  'initial_resource_versions'?: ({[key: string]: string});
  'response_nonce'?: (string);
  'error_detail'?: (_google_rpc_Status__Output);
}
