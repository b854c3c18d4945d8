// Original file: proto/istio/security/authorization.proto

import type { Match as _istio_security_Match, Match__Output as _istio_security_Match__Output } from '../../istio/security/Match.js';

export interface Rules {
  'matches'?: (_istio_security_Match)[];
}

export interface Rules__Output {
  'matches'?: (_istio_security_Match__Output)[];
}
