// SPDX-License-Identifier: Apache-2.0
// A self-signed root in a Secret, laid out as istiod lays it out, so that either program takes over the other's root. Reaches the API server through what it is given.

import { InvalidInput } from '../base/errors.js'
import type { RootStore, RootTexts, StoredRoot } from './root-store.js'

export const rootSecretName = 'istio-ca-secret'
export const rootSecretType = 'istio.io/ca-root'

/** A Secret with its values decoded. */
export interface StoredSecret {
  readonly version: string
  readonly values: Readonly<Record<string, string>>
}

/** One Secret of the API server. Rejects with Retryable when the server cannot be reached or refuses. */
export interface SecretAccess {
  /** `namespace/name`. */
  readonly name: string
  /** Undefined: not found. */
  read(signal: AbortSignal): Promise<StoredSecret | undefined>
  /** Undefined: it is there already. */
  create(type: string, values: Readonly<Record<string, string>>, signal: AbortSignal): Promise<StoredSecret | undefined>
  /** Replaces these values and keeps others. Undefined: conflict, or not found. */
  update(
    values: Readonly<Record<string, string>>,
    version: string,
    signal: AbortSignal,
  ): Promise<StoredSecret | undefined>
}

export interface SecretRootOptions {
  /** `root-cert.pem` of the ConfigMap by which proxies get their roots, in the namespace of the Secret; undefined when it is not there. */
  readonly readPublished: (signal: AbortSignal) => Promise<string | undefined>
}

export function createSecretRootStore(secret: SecretAccess, options: SecretRootOptions): RootStore {
  const name = `Secret ${secret.name}`
  const parse = (stored: StoredSecret | undefined): StoredRoot | undefined => {
    if (stored === undefined) return undefined
    const { values, version } = stored
    const certificate = values['ca-cert.pem'] ?? ''
    const privateKey = values['ca-key.pem'] ?? ''
    if (certificate === '' || privateKey === '') {
      throw new InvalidInput(
        `${name} lacks ca-cert.pem or ca-key.pem; restore it from a backup, or delete it and ConfigMap istio-ca-root-cert beside it to begin with a new root`,
      )
    }
    return { certificate, privateKey, roots: values['root-cert.pem'] ?? '', version }
  }
  return {
    name,
    async read(signal) {
      return parse(await secret.read(signal))
    },
    async create(root, signal) {
      return parse(await secret.create(rootSecretType, toValues(root), signal))
    },
    async update(root, version, signal) {
      return parse(await secret.update(toValues(root), version, signal))
    },
    readPublished: options.readPublished,
  }
}

function toValues({ certificate, privateKey, roots }: RootTexts): Record<string, string> {
  return {
    'ca-cert.pem': certificate,
    'ca-key.pem': privateKey,
    'cert-chain.pem': '',
    'key.pem': '',
    'root-cert.pem': roots === '' ? certificate : roots,
  }
}
