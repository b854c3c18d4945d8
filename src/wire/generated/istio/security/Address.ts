// Original file: proto/istio/security/authorization.proto


export interface Address {
  'address'?: (Buffer | Uint8Array | string);
  'length'?: (number);
}

export interface Address__Output {
  'address'?: (Buffer);
  'length'?: (number);
}
