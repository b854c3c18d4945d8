// Original file: proto/istio/security/authorization.proto

import type { Rules as _istio_security_Rules, Rules__Output as _istio_security_Rules__Output } from '../../istio/security/Rules.js';

export interface Group {
  'rules'?: (_istio_security_Rules)[];
}

export interface Group__Output {
  'rules'?: (_istio_security_Rules__Output)[];
}
