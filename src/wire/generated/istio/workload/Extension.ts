// Original file: proto/istio/workload/workload.proto

import type { Any as _google_protobuf_Any, Any__Output as _google_protobuf_Any__Output } from '../../google/protobuf/Any.js';

export interface Extension {
  'name'?: (string);
  'config'?: (_google_protobuf_Any | null);
}

export interface Extension__Output {
  'name'?: (string);
  'config'?: (_google_protobuf_Any__Output);
}
