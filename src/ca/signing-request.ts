// SPDX-License-Identifier: Apache-2.0
// What counts of a certificate signing request: that its sender has the private key, which public key that is, and whether it has a common name.
// Everything else that a request asks for is ignored. Signs nothing.

import { createPublicKey, verify } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { InvalidInput } from '../base/errors.js'
import { encodeOid, encodeSequence, encodeTlv, readDer, readDerValues } from './der.js'
import { parsePem } from './pem.js'
import { loadX509 } from './x509.js'

export interface SigningRequest {
  /** DER SubjectPublicKeyInfo. */
  readonly publicKey: Buffer
  readonly hasCommonName: boolean
}

/** Longest request that is looked at, in characters: one with an RSA key of 8192 bits and a long name needs 4 KB. */
const longestRequest = 32 * 1024

interface HowSigned {
  readonly kind: string
  readonly digest: string | undefined
}

const shaNames = ['sha256', 'sha384', 'sha512']

const signedWith = (algorithm: Buffer, kind: string, digest: string | undefined): [string, HowSigned] => [
  algorithm.toString('hex'),
  { kind, digest },
]

/** How requests may be signed, by the bytes of the AlgorithmIdentifier. SHA-1 and whatever else is missing here proves nothing. */
const signatures: ReadonlyMap<string, HowSigned> = new Map([
  ...shaNames.map((digest, i) => signedWith(encodeSequence(encodeOid(`1.2.840.10045.4.3.${i + 2}`)), 'ec', digest)),
  ...shaNames.map((digest, i) =>
    signedWith(encodeSequence(encodeOid(`1.2.840.113549.1.1.${i + 11}`), encodeTlv(0x05)), 'rsa', digest),
  ),
  signedWith(encodeSequence(encodeOid('1.3.101.112')), 'ed25519', undefined),
])

const COMMON_NAME = encodeOid('2.5.4.3')

/** P-256 and P-384 by name, the point written out: what OpenSSL takes besides (a curve of one's own, half a point) is not for certificates. */
const ecHeads = [
  { head: Buffer.from('3059301306072a8648ce3d020106082a8648ce3d03010703420004', 'hex'), length: 91 },
  { head: Buffer.from('3076301006072a8648ce3d020106052b8104002203620004', 'hex'), length: 120 },
]

/**
 * Reads and checks a request in PEM, whatever its label and the text around it. Rejects with InvalidInput that says which of these it is:
 * no PEM, no PKCS#10, a signature that does not fit the key, a key that is not allowed.
 */
export async function parseSigningRequest(pem: string): Promise<SigningRequest> {
  if (pem.length > longestRequest) {
    throw new InvalidInput(`the signing request has ${pem.length} characters, more than ${longestRequest}`)
  }
  const [block] = parsePem(pem)
  if (block === undefined) throw new InvalidInput('the signing request is not in PEM form')
  const { Pkcs10CertificateRequest } = await loadX509()
  let parts: Parts
  try {
    // The library judges the structure; what is taken are slices of the very bytes that were signed, nothing encoded anew.
    new Pkcs10CertificateRequest(block.der)
    parts = selectParts(block.der)
  } catch (error) {
    throw new InvalidInput('the signing request is no PKCS#10 request', error)
  }
  const key = parsePublicKey(parts.publicKey)
  const publicKey = checkKey(key, parts.publicKey)
  const how = signatures.get(parts.algorithm.toString('hex'))
  if (how === undefined || how.kind !== key.asymmetricKeyType) {
    throw new InvalidInput(
      'the signing request is not signed as it must be: by its own key, and with SHA-256, SHA-384 or SHA-512 unless the key is Ed25519',
    )
  }
  if (!verify(how.digest, parts.body, key, parts.signature)) {
    throw new InvalidInput('the signature of the signing request does not fit its key')
  }
  return { publicKey, hasCommonName: parts.hasCommonName }
}

interface Parts {
  /** What is signed. */
  readonly body: Buffer
  readonly algorithm: Buffer
  readonly signature: Buffer
  readonly publicKey: Buffer
  readonly hasCommonName: boolean
}

/** Throws RangeError when the parts are not where a request has them. */
function selectParts(der: Buffer): Parts {
  const outer = readDer(der)
  const [body, algorithm, signature, ...more] = readDerValues(outer.content)
  const isComplete = body !== undefined && algorithm !== undefined && signature !== undefined
  if (!isComplete || more.length > 0 || outer.raw.length !== der.length) throw new RangeError('not three parts')
  if (signature.tag !== 0x03 || signature.content[0] !== 0) throw new RangeError('no signature')
  const [, subject, publicKey] = readDerValues(body.content)
  if (subject === undefined || publicKey === undefined) throw new RangeError('no public key')
  return {
    body: body.raw,
    algorithm: algorithm.raw,
    signature: signature.content.subarray(1),
    publicKey: publicKey.raw,
    hasCommonName: hasCommonName(subject.content),
  }
}

function hasCommonName(subject: Buffer): boolean {
  return readDerValues(subject).some((set) =>
    readDerValues(set.content).some((pair) => {
      const [type, value] = readDerValues(pair.content)
      return type !== undefined && value !== undefined && type.raw.equals(COMMON_NAME) && value.content.length > 0
    }),
  )
}

function parsePublicKey(spki: Buffer): KeyObject {
  try {
    return createPublicKey({ key: spki, format: 'der', type: 'spki' })
  } catch (error) {
    throw new InvalidInput('the public key of the signing request cannot be read', error)
  }
}

/** The key as it is to stand in a certificate. Throws InvalidInput for keys that are weak or that proxies do not take. */
function checkKey(key: KeyObject, asSent: Buffer): Buffer {
  const type = key.asymmetricKeyType ?? 'unknown'
  if (
    type === 'ec' &&
    ecHeads.some(({ head, length }) => asSent.length === length && asSent.subarray(0, head.length).equals(head))
  ) {
    return asSent
  }
  if (type === 'ed25519') return key.export({ type: 'spki', format: 'der' })
  const { namedCurve = '', modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {}
  if (type === 'rsa') {
    const isExponentFine = publicExponent >= 3n && publicExponent < 2n ** 31n && publicExponent % 2n === 1n
    if (modulusLength >= 2048 && modulusLength <= 8192 && isExponentFine) {
      return key.export({ type: 'spki', format: 'der' })
    }
    throw new InvalidInput(
      `an RSA key of ${modulusLength} bits with the exponent ${publicExponent.toString()} is not allowed; it must have 2048 to 8192 bits and an odd exponent below 2^31`,
    )
  }
  const what = [type, namedCurve].filter((part) => part !== '').join(' ')
  throw new InvalidInput(`a key of the kind ${what} is not allowed; use ECDSA P-256 or P-384, RSA or Ed25519`)
}
