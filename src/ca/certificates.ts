// SPDX-License-Identifier: Apache-2.0
// Certificates of the two kinds that we make, leaves and self-signed roots, as DER. Signs what it is told to sign; who may have what is decided elsewhere.

import { createHash, createPublicKey, randomBytes, sign as signBytes } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { InvalidInput } from '../base/errors.js'
import { parseIp } from '../base/ip.js'
import {
  encodeBits,
  encodeBoolean,
  encodeOctets,
  encodeOid,
  encodeSequence,
  encodeSet,
  encodeText,
  encodeTime,
  encodeTlv,
  encodeUnsigned,
  readDerValues,
} from './der.js'

/** Clocks of a mesh differ: certificates begin so much before they are made. */
export const backdateMs = 120_000

const longestCommonName = 64
const COMMON_NAME = encodeOid('2.5.4.3')
const ORGANISATION = encodeOid('2.5.4.10')

const version3 = encodeTlv(0xa0, encodeUnsigned(Buffer.from([2])))
const emptyName = encodeSequence()

const extension = (oid: string, isCritical: boolean, value: Uint8Array): Buffer =>
  encodeSequence(encodeOid(oid), ...(isCritical ? [encodeBoolean(true)] : []), encodeOctets(value))

/** What every leaf has alike: for signing and key exchange, as server and as client, never an authority. */
const leafUsages = Buffer.concat([
  extension('2.5.29.15', true, encodeBits(Buffer.from([0xa0]), 5)),
  extension('2.5.29.37', false, encodeSequence(encodeOid('1.3.6.1.5.5.7.3.1'), encodeOid('1.3.6.1.5.5.7.3.2'))),
  extension('2.5.29.19', true, encodeSequence()),
])

const rootUsages = Buffer.concat([
  extension('2.5.29.15', true, encodeBits(Buffer.from([0x04]), 2)),
  extension('2.5.29.19', true, encodeSequence(encodeBoolean(true))),
])

/** How a key signs. */
interface Signature {
  /** AlgorithmIdentifier. */
  readonly algorithm: Buffer
  /** For node:crypto. */
  readonly digest: string | undefined
}

const rsaSignature: Signature = {
  algorithm: encodeSequence(encodeOid('1.2.840.113549.1.1.11'), encodeTlv(0x05)),
  digest: 'sha256',
}
const ecSignature = (oid: string, digest: string): Signature => ({ algorithm: encodeSequence(encodeOid(oid)), digest })
const ecSignatures: Readonly<Record<string, Signature>> = {
  prime256v1: ecSignature('1.2.840.10045.4.3.2', 'sha256'),
  secp384r1: ecSignature('1.2.840.10045.4.3.3', 'sha384'),
  secp521r1: ecSignature('1.2.840.10045.4.3.4', 'sha512'),
}
const ed25519Signature: Signature = { algorithm: encodeSequence(encodeOid('1.3.101.112')), digest: undefined }

/** How a key signs by default; undefined for kinds of keys that cannot sign certificates here. */
export function selectSignature(key: KeyObject): Signature | undefined {
  const type = key.asymmetricKeyType
  if (type === 'rsa') return rsaSignature
  if (type === 'ed25519') return ed25519Signature
  return type === 'ec' ? ecSignatures[key.asymmetricKeyDetails?.namedCurve ?? ''] : undefined
}

/** Who signs: the private key and what a certificate says of its issuer. */
export interface Issuer {
  readonly key: KeyObject
  /** DER of the subject, byte for byte as in the issuer's own certificate. */
  readonly name: Buffer
  /** Its subject key identifier, if it has one. */
  readonly keyId: Buffer | undefined
}

export interface LeafFields {
  /** DER SubjectPublicKeyInfo. */
  readonly publicKey: Buffer
  /** At least one: an IP literal, a URI that begins with spiffe://, or a DNS name. */
  readonly names: readonly string[]
  /** The first name is the common name too, unless it is too long for that. */
  readonly hasCommonName: boolean
  /** Wall time. */
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** A signed leaf as DER. Rejects with InvalidInput when a name cannot stand in a certificate. */
export function signLeaf(fields: LeafFields, issuer: Issuer): Promise<Buffer> {
  const [first = ''] = fields.names
  const subject =
    fields.hasCommonName && first !== '' && first.length <= longestCommonName
      ? encodeName(COMMON_NAME, first)
      : emptyName
  const { keyId } = issuer
  const authority = keyId === undefined ? [] : [extension('2.5.29.35', false, encodeSequence(encodeTlv(0x80, keyId)))]
  const names = extension('2.5.29.17', true, encodeSequence(...fields.names.map(encodeAlternativeName)))
  return signCertificate({ ...fields, subject, extensions: [leafUsages, ...authority, names] }, issuer)
}

export interface RootFields {
  /** DER of the subject, see encodeRootName. */
  readonly name: Buffer
  readonly key: KeyObject
  /** Default: a hash of the key. */
  readonly keyId?: Buffer | undefined
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** The subject of a new root. */
export function encodeRootName(organisation: string): Buffer {
  return encodeName(ORGANISATION, organisation)
}

/** A root that signed itself, as DER. */
export function signRoot({ name, key, keyId, notBeforeMs, notAfterMs }: RootFields): Promise<Buffer> {
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' })
  const extensions = [rootUsages, extension('2.5.29.14', false, encodeOctets(keyId ?? toKeyId(publicKey)))]
  return signCertificate(
    { publicKey, subject: name, notBeforeMs, notAfterMs, extensions },
    { key, name, keyId: undefined },
  )
}

interface CertificateFields {
  readonly publicKey: Buffer
  readonly subject: Buffer
  readonly notBeforeMs: number
  readonly notAfterMs: number
  readonly extensions: readonly Buffer[]
}

const signLater = promisify<string | undefined, Uint8Array, KeyObject, Buffer>(signBytes)

async function signCertificate(fields: CertificateFields, issuer: Issuer): Promise<Buffer> {
  const signature = selectSignature(issuer.key)
  if (signature === undefined) throw new InvalidInput('the signing key is neither RSA, ECDSA nor Ed25519')
  const body = encodeSequence(
    version3,
    encodeUnsigned(randomBytes(16)),
    signature.algorithm,
    issuer.name,
    encodeSequence(encodeTime(fields.notBeforeMs), encodeTime(fields.notAfterMs)),
    fields.subject,
    fields.publicKey,
    encodeTlv(0xa3, encodeSequence(...fields.extensions)),
  )
  // RSA takes long enough to be done beside the event loop; for the others the way there and back costs more.
  const signed =
    issuer.key.asymmetricKeyType === 'rsa'
      ? await signLater(signature.digest, body, issuer.key)
      : signBytes(signature.digest, body, issuer.key)
  return encodeSequence(body, signature.algorithm, encodeBits(signed))
}

const encodeName = (type: Buffer, text: string): Buffer =>
  encodeSequence(encodeSet(encodeSequence(type, encodeText(text))))

function encodeAlternativeName(name: string): Buffer {
  if (!/^[\x21-\x7e]+$/.test(name)) {
    throw new InvalidInput(`${JSON.stringify(name)} cannot be a name in a certificate: it is not plain ASCII`)
  }
  const ip = parseIp(name)
  if (ip !== undefined) return encodeTlv(0x87, ip)
  return encodeTlv(name.startsWith('spiffe://') ? 0x86 : 0x82, Buffer.from(name, 'latin1'))
}

/** The identifier of a key: a hash of its bits, as is custom. */
function toKeyId(spki: Buffer): Buffer {
  const [outer] = readDerValues(spki)
  const bits = outer === undefined ? undefined : readDerValues(outer.content)[1]
  if (bits === undefined) throw new InvalidInput('a public key without bits')
  return createHash('sha1').update(bits.content.subarray(1)).digest()
}
