// SPDX-License-Identifier: Apache-2.0
// Client certificates: the one SPIFFE id of a leaf whose chain the connection has verified. Carries no pod, so nobody proves a place by it.

import { parseSpiffeId } from '../base/spiffe.js'
import { absent, refuse, type Authenticator } from './verdict.js'

/** `trustDomains` are those whose certificates count, at each call. */
export function createClientCertificate(trustDomains: () => readonly string[]): Authenticator {
  return {
    name: 'client certificate',
    judge({ secure, certificateUris }) {
      const [identity, ...more] = certificateUris
      if (!secure || identity === undefined) return Promise.resolve(absent)
      if (more.length > 0) return Promise.resolve(refuse('the certificate names more than one identity'))
      const trustDomain = parseSpiffeId(identity)?.trustDomain
      if (trustDomain === undefined) return Promise.resolve(refuse('the certificate names no service account'))
      if (!trustDomains().some((domain) => domain.replaceAll('@', '.') === trustDomain)) {
        return Promise.resolve(refuse('the certificate is of another trust domain'))
      }
      return Promise.resolve({ kind: 'caller', caller: { identities: [identity], source: 'certificate' } })
    },
  }
}
