// Original file: proto/istio/security/authorization.proto

import type { Empty as _google_protobuf_Empty, Empty__Output as _google_protobuf_Empty__Output } from '../../google/protobuf/Empty.js';

export interface StringMatch {
  'exact'?: (string);
  'prefix'?: (string);
  'suffix'?: (string);
  'presence'?: (_google_protobuf_Empty | null);
  'match_type'?: "exact"|"prefix"|"suffix"|"presence";
}

export interface StringMatch__Output {
  'exact'?: (string);
  'prefix'?: (string);
  'suffix'?: (string);
  'presence'?: (_google_protobuf_Empty__Output);
  'match_type'?: "exact"|"prefix"|"suffix"|"presence";
}
