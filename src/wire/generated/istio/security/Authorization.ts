// Original file: proto/istio/security/authorization.proto

import type { Scope as _istio_security_Scope, Scope__Output as _istio_security_Scope__Output } from '../../istio/security/Scope.js';
import type { Action as _istio_security_Action, Action__Output as _istio_security_Action__Output } from '../../istio/security/Action.js';
import type { Group as _istio_security_Group, Group__Output as _istio_security_Group__Output } from '../../istio/security/Group.js';
import type { Extension as _istio_workload_Extension, Extension__Output as _istio_workload_Extension__Output } from '../../istio/workload/Extension.js';

export interface Authorization {
  'name'?: (string);
  'namespace'?: (string);
  'scope'?: (_istio_security_Scope);
  'action'?: (_istio_security_Action);
  'groups'?: (_istio_security_Group)[];
  'dry_run'?: (boolean);
  'extensions'?: (_istio_workload_Extension)[];
}

export interface Authorization__Output {
  'name'?: (string);
  'namespace'?: (string);
  'scope'?: (_istio_security_Scope__Output);
  'action'?: (_istio_security_Action__Output);
  'groups'?: (_istio_security_Group__Output)[];
  'dry_run'?: (boolean);
  'extensions'?: (_istio_workload_Extension__Output)[];
}
