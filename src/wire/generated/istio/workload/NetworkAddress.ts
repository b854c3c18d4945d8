// Original file: proto/istio/workload/workload.proto


export interface NetworkAddress {
  'network'?: (string);
  'address'?: (Buffer | Uint8Array | string);
  'length'?: (number);
  '_length'?: "length";
}

export interface NetworkAddress__Output {
  'network'?: (string);
  'address'?: (Buffer);
  'length'?: (number);
  '_length'?: "length";
}
