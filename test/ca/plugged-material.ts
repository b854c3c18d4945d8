// SPDX-License-Identifier: Apache-2.0
// An authority as people plug one in, for tests: a P-384 intermediate for 40 days under a P-256 intermediate under an RSA root.

import 'reflect-metadata'
import { KeyObject, webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'
import { formatPem } from '../../src/ca/pem.js'
import type { BundleTexts } from '../../src/ca/signing-bundle.js'

const dayMs = 86_400_000
export type Keys = webcrypto.CryptoKeyPair

export interface Issued {
  readonly certificate: x509.X509Certificate
  readonly keys: Keys
}

const rsa = {
  name: 'RSASSA-PKCS1-v1_5',
  hash: 'SHA-256',
  modulusLength: 2048,
  publicExponent: new Uint8Array([1, 0, 1]),
}
const ec = (namedCurve: string, hash: string): { name: string; namedCurve: string; hash: string } => ({
  name: 'ECDSA',
  namedCurve,
  hash,
})

/** A certificate that may sign others, unless told otherwise; without a parent it signs itself. Made by a library, not by the code under test. */
export async function issueAuthority(
  name: string,
  options: {
    readonly parent?: Issued
    readonly keys?: Keys
    readonly days?: number
    readonly isAuthority?: boolean
    readonly nowMs?: number
  },
): Promise<Issued> {
  x509.cryptoProvider.set(webcrypto)
  const { parent, days = 365, isAuthority = true, nowMs = Date.now() } = options
  const keys = options.keys ?? (await makeKeys('P-256'))
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: `0${Math.floor(Math.random() * 2 ** 44)
      .toString(16)
      .padStart(11, '0')}`,
    subject: `CN=${name}`,
    issuer: parent?.certificate.subject ?? `CN=${name}`,
    notBefore: new Date(nowMs - 1000),
    notAfter: new Date(nowMs + days * dayMs),
    signingAlgorithm: (parent?.keys ?? keys).privateKey.algorithm as webcrypto.EcdsaParams,
    publicKey: keys.publicKey,
    signingKey: (parent?.keys ?? keys).privateKey,
    extensions: [
      new x509.BasicConstraintsExtension(isAuthority, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate, keys }
}

export async function makeKeys(kind: 'RSA' | 'P-256' | 'P-384'): Promise<Keys> {
  const algorithm = kind === 'RSA' ? rsa : ec(kind, kind === 'P-384' ? 'SHA-384' : 'SHA-256')
  return await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
}

export const toPem = ({ certificate }: Issued): string => `${certificate.toString('pem')}\n`
export const toKeyPem = ({ keys }: Issued): string =>
  KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }) as string

/** A revocation list of a P-256 authority that revokes nothing. */
export async function makeCrl(issuer: Issued): Promise<string> {
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.certificate.subject,
    thisUpdate: new Date(Date.now() - 1000),
    nextUpdate: new Date(Date.now() + dayMs),
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    signingKey: issuer.keys.privateKey,
  })
  return formatPem('X509 CRL', new Uint8Array(list.rawData))
}

/** The texts of a whole authority, its chain holding all three certificates. */
export async function makeAuthorityOfThree(): Promise<{ readonly texts: BundleTexts; readonly lifeSeconds: number }> {
  const root = await issueAuthority('root', { keys: await makeKeys('RSA') })
  const middle = await issueAuthority('middle', { parent: root, days: 200 })
  const signing = await issueAuthority('signing', { parent: middle, keys: await makeKeys('P-384'), days: 40 })
  const text = (name: string, content: string): { name: string; text: string } => ({ name, text: content })
  return {
    texts: {
      certificate: text('ca-cert.pem', toPem(signing)),
      key: text('ca-key.pem', toKeyPem(signing)),
      chain: text('cert-chain.pem', toPem(signing) + toPem(middle) + toPem(root)),
      roots: text('root-cert.pem', toPem(root)),
    },
    lifeSeconds: 40 * 86_400,
  }
}
