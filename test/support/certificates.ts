// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, made by a library and not by the code under test: authorities, and leaves of them with whatever names are asked for. PEM throughout.

import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const day = 86_400_000

export interface Leaf {
  readonly cert: string
  readonly key: string
}

export interface LeafOptions {
  readonly uris?: readonly string[]
  readonly dns?: readonly string[]
  /** Default: for servers and clients. */
  readonly usages?: readonly ('server' | 'client')[]
  /** Milliseconds from now, both may be negative. Default: since an hour, for a day. */
  readonly fromMs?: number
  readonly untilMs?: number
}

export class TestAuthority {
  readonly cert: string
  readonly #certificate: x509.X509Certificate
  readonly #keys: webcrypto.CryptoKeyPair

  private constructor(certificate: x509.X509Certificate, keys: webcrypto.CryptoKeyPair) {
    this.#certificate = certificate
    this.#keys = keys
    this.cert = certificate.toString('pem')
  }

  static async create(name = 'test root'): Promise<TestAuthority> {
    x509.cryptoProvider.set(webcrypto)
    const keys = await generateKeys()
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber: '01',
      name: `O=${name}`,
      notBefore: new Date(Date.now() - day),
      notAfter: new Date(Date.now() + day),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    })
    return new TestAuthority(certificate, keys)
  }

  async issue(options: LeafOptions): Promise<Leaf> {
    const keys = await generateKeys()
    const usages = options.usages ?? ['server', 'client']
    const names: x509.JsonGeneralNames = [
      ...(options.uris ?? []).map((value) => ({ type: 'url' as const, value })),
      ...(options.dns ?? []).map((value) => ({ type: 'dns' as const, value })),
    ]
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: Math.floor(Math.random() * 2 ** 40)
        .toString(16)
        .padStart(12, '0'),
      issuer: this.#certificate.subject,
      notBefore: new Date(Date.now() + (options.fromMs ?? -3_600_000)),
      notAfter: new Date(Date.now() + (options.untilMs ?? day)),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      extensions: [
        new x509.BasicConstraintsExtension(false),
        new x509.ExtendedKeyUsageExtension(
          usages.map((usage) => x509.ExtendedKeyUsage[usage === 'server' ? 'serverAuth' : 'clientAuth']),
        ),
        new x509.SubjectAlternativeNameExtension(names),
      ],
    })
    const der = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)
    return { cert: certificate.toString('pem'), key: x509.PemConverter.encode(der, 'PRIVATE KEY') }
  }
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
}
