// Original file: proto/istio/auth/ca.proto


export interface IstioCertificateResponse {
  'cert_chain'?: (string)[];
}

export interface IstioCertificateResponse__Output {
  'cert_chain'?: (string)[];
}
