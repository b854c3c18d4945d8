// SPDX-License-Identifier: Apache-2.0
// Revocation lists that people bring along with their authority: proxies that check them refuse what no list speaks of, so lists must fit the chain.

import { webcrypto } from 'node:crypto'
import { InvalidInput } from '../base/errors.js'
import { parsePem } from './pem.js'
import { parseCertificates } from './signing-bundle.js'
import type { NamedText } from './signing-bundle.js'
import { loadX509 } from './x509.js'

/**
 * Every certificate of the chain must have signed a list. An empty text is no list and fine. Rejects with InvalidInput that names the file
 * and the certificate without a list.
 */
export async function checkRevocation(crl: NamedText, chain: NamedText): Promise<void> {
  if (crl.text.trim() === '') return
  const { X509Crl, X509Certificate } = await loadX509()
  const blocks = parsePem(crl.text)
  if (blocks.length === 0)
    throw new InvalidInput(`${crl.name} holds no revocation list in PEM form; correct it or leave it empty`)
  const lists = blocks.map(({ label, der }, i) => {
    try {
      if (label !== 'X509 CRL') throw new RangeError(`a block is labelled ${label}`)
      return new X509Crl(der)
    } catch (error) {
      throw new InvalidInput(`block ${i + 1} of ${crl.name} is no revocation list`, error)
    }
  })
  for (const { certificate } of parseCertificates(chain)) {
    const signer = new X509Certificate(certificate.raw)
    const judged = await Promise.all(
      lists.map(async (list) => {
        try {
          return await list.verify({ publicKey: signer }, webcrypto)
        } catch {
          return false // Another kind of key than the list's: not its signer.
        }
      }),
    )
    if (judged.includes(true)) continue
    throw new InvalidInput(
      `${crl.name} holds no revocation list signed by "${certificate.subject.replaceAll('\n', ', ')}" of ${chain.name}; add one for each certificate of the chain`,
    )
  }
}
