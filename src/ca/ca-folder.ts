// SPDX-License-Identifier: Apache-2.0
// A folder with the key and certificates of an authority that people brought along, in either of the two customary layouts. Reads; checks what belongs
// together; keeps nothing.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import { checkRevocation } from './revocation.js'
import { parseBundle } from './signing-bundle.js'
import type { BundleTexts, NamedText, SigningBundle } from './signing-bundle.js'

/** Beside a bundle that was made by the mesh itself and put into the folder. */
export const generatedMarker = 'istio-generated'

const ownNames = ['ca-cert.pem', 'ca-key.pem', 'cert-chain.pem', 'root-cert.pem'] as const
const kubernetesNames = ['tls.crt', 'tls.key', 'ca.crt'] as const

export interface CaFolder {
  readonly bundle: SigningBundle
  /** Revocation lists in PEM, empty without any. */
  readonly crl: string
}

export interface CaFolderTexts {
  readonly texts: BundleTexts
  readonly crl: NamedText
  /** The mesh made it itself. */
  readonly isGenerated: boolean
}

/**
 * Reads a folder; undefined when it holds none of the files or is not there. Rejects with InvalidInput that names the files when only some
 * are there, and with Retryable when a file cannot be read.
 */
export async function readCaFolder(folder: string): Promise<CaFolderTexts | undefined> {
  const read = async (file: string): Promise<NamedText | undefined> => {
    const name = join(folder, file)
    try {
      return { name, text: await readFile(name, 'utf8') }
    } catch (error) {
      if (['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code))) return undefined
      throw new Retryable(`${name} cannot be read: ${formatError(error)}`, error)
    }
  }
  const readAll = async <Name extends string>(names: readonly Name[]): Promise<Map<Name, NamedText>> => {
    const found = new Map<Name, NamedText>()
    for (const name of names) {
      const text = await read(name)
      if (text !== undefined) found.set(name, text)
    }
    return found
  }
  const crl = (await read('ca-crl.pem')) ?? { name: join(folder, 'ca-crl.pem'), text: '' }
  const isGenerated = (await read(generatedMarker)) !== undefined
  const kubernetes = await readAll(kubernetesNames)
  if (kubernetes.has('tls.crt')) {
    const found = selectComplete(kubernetesNames, kubernetes, folder)
    const chain = { name: found['tls.crt'].name, text: `${found['tls.crt'].text}\n${found['ca.crt'].text}` }
    return {
      texts: { certificate: found['tls.crt'], key: found['tls.key'], chain, roots: found['ca.crt'] },
      crl,
      isGenerated,
    }
  }
  const own = await readAll(ownNames)
  if (own.size === 0) return undefined
  const found = selectComplete(ownNames, own, folder)
  return {
    texts: {
      certificate: found['ca-cert.pem'],
      key: found['ca-key.pem'],
      chain: found['cert-chain.pem'],
      roots: found['root-cert.pem'],
    },
    crl,
    isGenerated,
  }
}

/** Checks everything, the times at `nowMs` included. Rejects with InvalidInput that names the file and the fix. */
export async function checkCaFolder({ texts, crl }: CaFolderTexts, nowMs: number): Promise<CaFolder> {
  const bundle = parseBundle(texts)
  if (bundle.notAfterMs <= nowMs) {
    throw new InvalidInput(
      `${texts.certificate.name}, or a certificate above it, expired on ${new Date(bundle.notAfterMs).toISOString()}; replace it by one that is valid`,
    )
  }
  if (bundle.notBeforeMs > nowMs) {
    throw new InvalidInput(
      `${texts.certificate.name} is not valid before ${new Date(bundle.notBeforeMs).toISOString()}; replace it, or set the clock of this machine right`,
    )
  }
  await checkRevocation(crl, texts.chain)
  return { bundle, crl: crl.text }
}

function selectComplete<Name extends string>(
  names: readonly Name[],
  found: ReadonlyMap<Name, NamedText>,
  folder: string,
): Record<Name, NamedText> {
  const missing = names.filter((name) => !found.has(name))
  if (missing.length > 0) {
    throw new InvalidInput(
      `the signing certificates in ${folder} are incomplete: ${[...found.keys()].join(', ')} without ${missing.join(', ')}; add what is missing, or remove all of them to have a root made`,
    )
  }
  return Object.fromEntries(found) as Record<Name, NamedText>
}
