// SPDX-License-Identifier: Apache-2.0
// What tests of certificates are made of: keys of every kind, signing requests with whatever is asked for, stores and pods in memory.

import { createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import type { Caller } from '../../src/base/caller.js'
import type { Fields, Logger } from '../../src/base/log.js'
import {
  encodeBits,
  encodeBoolean,
  encodeOctets,
  encodeOid,
  encodeSequence,
  encodeSet,
  encodeText,
  encodeTlv,
  encodeUnsigned,
} from '../../src/ca/der.js'
import type { NodeIdentities, NodePod } from '../../src/ca/impersonation.js'
import { formatPem } from '../../src/ca/pem.js'
import type { RootStore, RootTexts, StoredRoot } from '../../src/ca/root-store.js'
import { Retryable } from '../../src/base/errors.js'

export type KeyKind = 'p224' | 'p256' | 'p384' | 'p521' | 'rsa1024' | 'rsa2048' | 'rsa3072' | 'rsa4096' | 'ed25519'

const curves: Readonly<Record<string, string>> = {
  p224: 'secp224r1',
  p256: 'prime256v1',
  p384: 'secp384r1',
  p521: 'secp521r1',
}

const keys = new Map<KeyKind, KeyObject>()

/** One private key of each kind is made, and kept. */
export function keyOf(kind: KeyKind): KeyObject {
  const known = keys.get(kind)
  if (known !== undefined) return known
  const made = makeKey(kind)
  keys.set(kind, made)
  return made
}

function makeKey(kind: KeyKind): KeyObject {
  if (kind === 'ed25519') return generateKeyPairSync('ed25519').privateKey
  if (kind.startsWith('rsa')) return generateKeyPairSync('rsa', { modulusLength: Number(kind.slice(3)) }).privateKey
  return generateKeyPairSync('ec', { namedCurve: curves[kind]! }).privateKey
}

export interface RequestOptions {
  readonly key?: KeyObject
  /** Default: that of `key`. */
  readonly publicKey?: Buffer
  /** URIs, DNS names and IPs in the request. */
  readonly names?: readonly string[]
  /** `CN=x` or `O=x`. */
  readonly subject?: string
  readonly digest?: 'sha1' | 'sha256' | 'sha384' | 'sha512'
  readonly asksForAuthority?: boolean
  readonly label?: string
  /** Changes the DER before it becomes PEM. */
  readonly tamper?: (der: Buffer) => void
}

const signatureOids: Readonly<Record<string, string>> = {
  'ec sha1': '1.2.840.10045.4.1',
  'ec sha256': '1.2.840.10045.4.3.2',
  'ec sha384': '1.2.840.10045.4.3.3',
  'ec sha512': '1.2.840.10045.4.3.4',
  'rsa sha1': '1.2.840.113549.1.1.5',
  'rsa sha256': '1.2.840.113549.1.1.11',
  'rsa sha384': '1.2.840.113549.1.1.12',
  'rsa sha512': '1.2.840.113549.1.1.13',
}

/** A signing request in PEM, as a proxy makes it unless told otherwise: P-256, no subject, one URI. */
export function makeRequest(options: RequestOptions = {}): string {
  const {
    key = keyOf('p256'),
    names = ['spiffe://cluster.local/ns/a/sa/near'],
    subject = '',
    digest = 'sha256',
  } = options
  const spki = options.publicKey ?? createPublicKey(key).export({ type: 'spki', format: 'der' })
  const extensions = [
    ...(names.length === 0
      ? []
      : [
          encodeSequence(
            encodeOid('2.5.29.17'),
            encodeBoolean(true),
            encodeOctets(encodeSequence(...names.map(toName))),
          ),
        ]),
    ...(options.asksForAuthority === true
      ? [
          encodeSequence(
            encodeOid('2.5.29.19'),
            encodeBoolean(true),
            encodeOctets(encodeSequence(encodeBoolean(true))),
          ),
          encodeSequence(encodeOid('2.5.29.15'), encodeBoolean(true), encodeOctets(encodeBits(Buffer.from([4]), 2))),
          encodeSequence(encodeOid('2.5.29.37'), encodeOctets(encodeSequence(encodeOid('1.3.6.1.5.5.7.3.3')))),
        ]
      : []),
  ]
  const attributes =
    extensions.length === 0
      ? []
      : [encodeSequence(encodeOid('1.2.840.113549.1.9.14'), encodeSet(encodeSequence(...extensions)))]
  const body = encodeSequence(
    encodeUnsigned(Buffer.from([0])),
    toSubject(subject),
    spki,
    encodeTlv(0xa0, ...attributes),
  )
  const kind = key.asymmetricKeyType ?? ''
  const algorithm =
    kind === 'ed25519'
      ? encodeSequence(encodeOid('1.3.101.112'))
      : encodeSequence(encodeOid(signatureOids[`${kind} ${digest}`]!), ...(kind === 'rsa' ? [encodeTlv(0x05)] : []))
  const signature = sign(kind === 'ed25519' ? undefined : digest, body, key)
  const der = encodeSequence(body, algorithm, encodeBits(signature))
  options.tamper?.(der)
  return formatPem(options.label ?? 'CERTIFICATE REQUEST', der)
}

function toName(name: string): Buffer {
  if (/^[\d.]+$/.test(name)) return encodeTlv(0x87, Buffer.from(name.split('.').map(Number)))
  return encodeTlv(name.includes('://') ? 0x86 : 0x82, Buffer.from(name))
}

function toSubject(subject: string): Buffer {
  if (subject === '') return encodeSequence()
  const [type = '', value = ''] = subject.split('=')
  return encodeSequence(encodeSet(encodeSequence(encodeOid(type === 'CN' ? '2.5.4.3' : '2.5.4.10'), encodeText(value))))
}

/** A store that several replicas share. `isAway` makes it unreachable. */
export class MemoryRootStore implements RootStore {
  readonly name = 'Secret istio-system/istio-ca-secret'
  stored: StoredRoot | undefined
  published: string | undefined
  isAway = false
  writes = 0
  #version = 0

  /** Every function answers in a later turn, as one over a network does. */
  async #answer<T>(make: () => T): Promise<T> {
    await new Promise((resolve) => setImmediate(resolve))
    if (this.isAway) throw new Retryable('the API server is away')
    return make()
  }

  #put(root: RootTexts): StoredRoot {
    this.writes++
    this.stored = {
      certificate: root.certificate,
      privateKey: root.privateKey,
      roots: root.roots,
      version: `${++this.#version}`,
    }
    return this.stored
  }

  read(): Promise<StoredRoot | undefined> {
    return this.#answer(() => this.stored)
  }

  create(root: RootTexts): Promise<StoredRoot | undefined> {
    return this.#answer(() => (this.stored === undefined ? this.#put(root) : undefined))
  }

  update(root: RootTexts, version: string): Promise<StoredRoot | undefined> {
    return this.#answer(() => (this.stored?.version === version ? this.#put(root) : undefined))
  }

  readPublished(): Promise<string | undefined> {
    return this.#answer(() => this.published)
  }
}

/** Pods in memory, by `namespace/name`. */
export class MemoryPods implements NodeIdentities {
  readonly pods = new Map<string, NodePod>()

  byPod(namespace: string, name: string): NodePod | undefined {
    return this.pods.get(`${namespace}/${name}`)
  }

  hasIdentityOnNode(node: string, namespace: string, serviceAccount: string): boolean {
    for (const [key, pod] of this.pods) {
      if (pod.node === node && pod.serviceAccount === serviceAccount && key.startsWith(`${namespace}/`)) return true
    }
    return false
  }
}

export const ztunnel: Caller = {
  identities: ['spiffe://cluster.local/ns/istio-system/sa/ztunnel'],
  kubernetes: { namespace: 'istio-system', serviceAccount: 'ztunnel', podName: 'ztunnel-1', podUid: 'uid-1' },
  source: 'kubernetes',
}

/** Every record, as one line of text. */
export class TextLog implements Logger {
  readonly lines: string[] = []
  readonly #write = (level: string) => (fields: Fields, message: string) => {
    this.lines.push(`${level} ${message} ${JSON.stringify(fields)}`)
  }
  readonly debug = this.#write('debug')
  readonly info = this.#write('info')
  readonly warn = this.#write('warn')
  readonly error = this.#write('error')

  child(): Logger {
    return this
  }

  /** Lines of warnings and errors. */
  get alarms(): string[] {
    return this.lines.filter((line) => /^(warn|error)/.test(line))
  }
}
