// Original file: proto/istio/workload/workload.proto


export interface NamespacedHostname {
  'namespace'?: (string);
  'hostname'?: (string);
}

export interface NamespacedHostname__Output {
  'namespace'?: (string);
  'hostname'?: (string);
}
