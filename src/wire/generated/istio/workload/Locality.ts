// Original file: proto/istio/workload/workload.proto


export interface Locality {
  'region'?: (string);
  'zone'?: (string);
  'subzone'?: (string);
}

export interface Locality__Output {
  'region'?: (string);
  'zone'?: (string);
  'subzone'?: (string);
}
