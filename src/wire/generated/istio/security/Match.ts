// Original file: proto/istio/security/authorization.proto

import type { StringMatch as _istio_security_StringMatch, StringMatch__Output as _istio_security_StringMatch__Output } from '../../istio/security/StringMatch.js';
import type { Address as _istio_security_Address, Address__Output as _istio_security_Address__Output } from '../../istio/security/Address.js';
import type { ServiceAccountMatch as _istio_security_ServiceAccountMatch, ServiceAccountMatch__Output as _istio_security_ServiceAccountMatch__Output } from '../../istio/security/ServiceAccountMatch.js';
import type { Extension as _istio_workload_Extension, Extension__Output as _istio_workload_Extension__Output } from '../../istio/workload/Extension.js';

export interface Match {
  'namespaces'?: (_istio_security_StringMatch)[];
  'not_namespaces'?: (_istio_security_StringMatch)[];
  'principals'?: (_istio_security_StringMatch)[];
  'not_principals'?: (_istio_security_StringMatch)[];
  'source_ips'?: (_istio_security_Address)[];
  'not_source_ips'?: (_istio_security_Address)[];
  'destination_ips'?: (_istio_security_Address)[];
  'not_destination_ips'?: (_istio_security_Address)[];
  'destination_ports'?: (number)[];
  'not_destination_ports'?: (number)[];
  'service_accounts'?: (_istio_security_ServiceAccountMatch)[];
  'not_service_accounts'?: (_istio_security_ServiceAccountMatch)[];
  'extensions'?: (_istio_workload_Extension)[];
}

export interface Match__Output {
  'namespaces'?: (_istio_security_StringMatch__Output)[];
  'not_namespaces'?: (_istio_security_StringMatch__Output)[];
  'principals'?: (_istio_security_StringMatch__Output)[];
  'not_principals'?: (_istio_security_StringMatch__Output)[];
  'source_ips'?: (_istio_security_Address__Output)[];
  'not_source_ips'?: (_istio_security_Address__Output)[];
  'destination_ips'?: (_istio_security_Address__Output)[];
  'not_destination_ips'?: (_istio_security_Address__Output)[];
  'destination_ports'?: (number)[];
  'not_destination_ports'?: (number)[];
  'service_accounts'?: (_istio_security_ServiceAccountMatch__Output)[];
  'not_service_accounts'?: (_istio_security_ServiceAccountMatch__Output)[];
  'extensions'?: (_istio_workload_Extension__Output)[];
}
