// SPDX-License-Identifier: Apache-2.0
// SPIFFE ids of service accounts as text and as parts. Strict: what does not read back byte for byte is none.

export interface SpiffeId {
  readonly trustDomain: string
  readonly namespace: string
  readonly serviceAccount: string
}

const pattern = /^spiffe:\/\/([^/?#\s]+)\/ns\/([^/?#\s]+)\/sa\/([^/?#\s]+)$/

/** Reads `spiffe://<trust domain>/ns/<namespace>/sa/<service account>`; undefined for anything else, an empty part included. */
export function parseSpiffeId(text: string): SpiffeId | undefined {
  const [, trustDomain, namespace, serviceAccount] = pattern.exec(text) ?? []
  if (trustDomain === undefined || namespace === undefined || serviceAccount === undefined) return undefined
  return { trustDomain, namespace, serviceAccount }
}

/** The inverse of parseSpiffeId. An `@` in the trust domain becomes a dot, as everywhere in the mesh. */
export function formatSpiffeId({ trustDomain, namespace, serviceAccount }: SpiffeId): string {
  return `spiffe://${trustDomain.replaceAll('@', '.')}/ns/${namespace}/sa/${serviceAccount}`
}
