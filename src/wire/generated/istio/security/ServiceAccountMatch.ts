// Original file: proto/istio/security/authorization.proto


export interface ServiceAccountMatch {
  'namespace'?: (string);
  'serviceAccount'?: (string);
}

export interface ServiceAccountMatch__Output {
  'namespace'?: (string);
  'serviceAccount'?: (string);
}
