// SPDX-License-Identifier: Apache-2.0
// The X.509 library, loaded when somebody first needs it: it takes a third of a second, and many servers start without. Reads what others sent; makes nothing.

import { webcrypto } from 'node:crypto'
import type * as x509 from '@peculiar/x509'

// The library's types name the browser's globals, which would be `any` without a word here.
declare global {
  type CryptoKey = webcrypto.CryptoKey
  type CryptoKeyPair = webcrypto.CryptoKeyPair
  type Crypto = webcrypto.Crypto
  type Algorithm = webcrypto.Algorithm
  type AlgorithmIdentifier = webcrypto.AlgorithmIdentifier
  type KeyUsage = webcrypto.KeyUsage
  type EcdsaParams = webcrypto.EcdsaParams
  type EcKeyGenParams = webcrypto.EcKeyGenParams
  type RsaHashedImportParams = webcrypto.RsaHashedImportParams
  type EcKeyImportParams = webcrypto.EcKeyImportParams
  type BufferSource = ArrayBufferView | ArrayBuffer
}

let loaded: Promise<typeof x509> | undefined

/** The same promise at every call. */
export function loadX509(): Promise<typeof x509> {
  loaded ??= load()
  return loaded
}

async function load(): Promise<typeof x509> {
  await import('reflect-metadata')
  const library = await import('@peculiar/x509')
  library.cryptoProvider.set(webcrypto)
  return library
}
