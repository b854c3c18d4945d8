// SPDX-License-Identifier: Apache-2.0
// Everything that signing takes, checked: key, certificate, the certificates between it and a root, and the roots that proxies are to trust.
// Made from texts, wherever they lay; messages name the text and the fix. Never says anything of a private key.

import { X509Certificate, createPrivateKey } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { InvalidInput } from '../base/errors.js'
import { selectSignature } from './certificates.js'
import type { Issuer } from './certificates.js'
import { encodeOid, readDer, readDerValues } from './der.js'
import { parsePem } from './pem.js'

/** A text and where it comes from, for messages. */
export interface NamedText {
  readonly name: string
  readonly text: string
}

export interface BundleTexts {
  readonly certificate: NamedText
  readonly key: NamedText
  /** Certificates from the signing one upwards; empty for a root that signs itself. */
  readonly chain: NamedText
  readonly roots: NamedText
}

export interface SigningBundle {
  readonly issuer: Issuer
  readonly certificate: X509Certificate
  /** In PEM, one a text, from the signing certificate upwards. Empty when a root signs. */
  readonly chain: readonly string[]
  /** In PEM, one a text, without repetitions. */
  readonly roots: readonly string[]
  /** Wall time: nothing that is signed may last longer than the way from the signing certificate to its root. */
  readonly notBeforeMs: number
  readonly notAfterMs: number
  /** Wall time at which the first certificate of the chain ends; undefined without a chain. */
  readonly chainNotAfterMs: number | undefined
  /** Wall time at which the first root ends. */
  readonly rootsNotAfterMs: number
}

interface Certified {
  readonly certificate: X509Certificate
  readonly pem: string
}

const SUBJECT_KEY_ID = encodeOid('2.5.29.14')

/** Checks texts and makes a bundle of them. Throws InvalidInput that names the text and what to do. Whether it has expired is for the caller. */
export function parseBundle(texts: BundleTexts): SigningBundle {
  const { certificate: certificateText, key: keyText, chain: chainText, roots: rootsText } = texts
  const [signing] = parseCertificates(certificateText)
  if (signing === undefined) throw new InvalidInput(`${certificateText.name} holds no certificate in PEM form`)
  const { certificate } = signing
  if (!certificate.ca) {
    throw new InvalidInput(
      `the certificate in ${certificateText.name} may not sign others (it is not marked CA:TRUE); use one that was issued as an authority`,
    )
  }
  const key = parseKey(keyText)
  if (!certificate.checkPrivateKey(key)) {
    throw new InvalidInput(
      `the key in ${keyText.name} does not belong to the certificate in ${certificateText.name}; both must be replaced together`,
    )
  }
  const roots = distinct(parseCertificates(rootsText))
  if (roots.length === 0) throw new InvalidInput(`${rootsText.name} holds no certificate in PEM form`)
  const isRoot = roots.some((root) => root.certificate.raw.equals(certificate.raw))
  const given = parseCertificates(chainText)
  // Peers need the signing certificate itself; a chain that begins above it is completed.
  const isComplete = isRoot || given.some((link) => link.certificate.raw.equals(certificate.raw))
  const chain = isComplete ? given : [signing, ...given]
  const path = selectPath(signing, given, roots)
  if (path === undefined) {
    throw new InvalidInput(
      `the certificate in ${certificateText.name} does not lead to a root in ${rootsText.name}; put the missing certificates into ${chainText.name}, or the right root into ${rootsText.name}`,
    )
  }
  const ends = path.map((link) => toMs(link.certificate.validTo))
  return {
    issuer: { key, ...parseIssuer(certificate) },
    certificate,
    chain: chain.map((link) => link.pem),
    roots: roots.map((root) => root.pem),
    notBeforeMs: toMs(certificate.validFrom),
    notAfterMs: Math.min(...ends),
    chainNotAfterMs: chain.length === 0 ? undefined : Math.min(...chain.map((link) => toMs(link.certificate.validTo))),
    rootsNotAfterMs: Math.min(...roots.map((root) => toMs(root.certificate.validTo))),
  }
}

/** All roots as one text. */
export function formatRoots(bundle: SigningBundle): string {
  return bundle.roots.join('')
}

/** Times as node:crypto writes them. */
function toMs(time: string): number {
  return Date.parse(time)
}

/** Every certificate of a text. Throws InvalidInput when a block is something else or cannot be read. */
export function parseCertificates({ name, text }: NamedText): Certified[] {
  return parsePem(text).map(({ label, der, text: pem }, i) => {
    if (label !== 'CERTIFICATE') throw new InvalidInput(`${name} holds a ${label} where only certificates may be`)
    try {
      return { certificate: new X509Certificate(der), pem }
    } catch (error) {
      throw new InvalidInput(`certificate ${i + 1} in ${name} cannot be read`, error)
    }
  })
}

/** Without the cause: what is said of a key that cannot be read may show a part of it. */
function parseKey({ name, text }: NamedText): KeyObject {
  let key: KeyObject
  try {
    key = createPrivateKey(text)
  } catch {
    throw new InvalidInput(
      `${name} holds no private key that can be read; it must be in PEM form and without a pass phrase`,
    )
  }
  if (selectSignature(key) !== undefined) return key
  throw new InvalidInput(
    `the key in ${name} is of a kind that is not supported; use RSA, ECDSA P-256, P-384 or P-521, or Ed25519`,
  )
}

function distinct(list: readonly Certified[]): Certified[] {
  return [...new Map(list.map((one) => [one.pem, one])).values()]
}

/** From the signing certificate to a root, both included; undefined when no such way exists. */
function selectPath(
  from: Certified,
  links: readonly Certified[],
  roots: readonly Certified[],
): Certified[] | undefined {
  const walk = (at: Certified, left: readonly Certified[]): Certified[] | undefined => {
    if (roots.some((root) => root.pem === at.pem)) return [at]
    const root = roots.find((candidate) => isIssuedBy(at, candidate))
    if (root !== undefined) return [at, root]
    for (const next of left.filter((candidate) => candidate.certificate.ca && isIssuedBy(at, candidate))) {
      const rest = walk(
        next,
        left.filter((other) => other !== next),
      )
      if (rest !== undefined) return [at, ...rest]
    }
    return undefined
  }
  return walk(
    from,
    links.filter((link) => link.pem !== from.pem),
  )
}

function isIssuedBy(one: Certified, issuer: Certified): boolean {
  return one.certificate.checkIssued(issuer.certificate) && one.certificate.verify(issuer.certificate.publicKey)
}

/** Subject and key identifier as they stand in the certificate, byte for byte: peers compare bytes. */
function parseIssuer(certificate: X509Certificate): { readonly name: Buffer; readonly keyId: Buffer | undefined } {
  const [body] = readDerValues(readDer(certificate.raw).content)
  const fields = body === undefined ? [] : readDerValues(body.content)
  // Only certificates of version 3 begin with a tagged version, and only those may sign here.
  const subject = fields[5]
  if (fields[0]?.tag !== 0xa0 || subject === undefined)
    throw new InvalidInput('the signing certificate is not of version 3')
  const extensions = fields.find((field) => field.tag === 0xa3)
  return { name: subject.raw, keyId: extensions === undefined ? undefined : selectKeyId(extensions.content) }
}

function selectKeyId(extensions: Buffer): Buffer | undefined {
  for (const extension of readDerValues(readDer(extensions).content)) {
    const parts = readDerValues(extension.content)
    const value = parts.at(-1)
    if (parts[0]?.raw.equals(SUBJECT_KEY_ID) === true && value !== undefined) return readDer(value.content).content
  }
  return undefined
}
