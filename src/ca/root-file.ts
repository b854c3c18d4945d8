// SPDX-License-Identifier: Apache-2.0
// A self-signed root in one file that only its owner may read: for a server without a cluster. Whole writes only: a reader sees the old or the new content.

import { createHash, randomBytes } from 'node:crypto'
import { link, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import { parsePem } from './pem.js'
import type { RootStore, RootTexts, StoredRoot } from './root-store.js'

const ownerOnly = 0o600

/** The file holds a private key, the root, and further roots to trust, in PEM. Its folder is made when it is not there. */
export function createFileRootStore(path: string): RootStore {
  const name = `file ${path}`
  const fail = (verb: string, error: unknown): Retryable =>
    new Retryable(`${name} cannot be ${verb}: ${formatError(error)}`, error)

  const read = async (): Promise<StoredRoot | undefined> => {
    let text: string
    try {
      const file = await open(path, 'r')
      try {
        const { mode } = await file.stat()
        if ((mode & 0o077) !== 0) {
          throw new InvalidInput(`${name} holds a private key and others may read it; run: chmod 600 ${path}`)
        }
        text = await file.readFile('utf8')
      } finally {
        await file.close()
      }
    } catch (error) {
      if (error instanceof InvalidInput) throw error
      if (toCode(error) === 'ENOENT') return undefined
      throw fail('read', error)
    }
    return parseRoot(text, name)
  }

  /** The file is complete, on disk and private before it gets its name. */
  const write = async (text: string, take: (temporary: string) => Promise<void>): Promise<void> => {
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      const file = await open(temporary, 'wx', ownerOnly)
      try {
        await file.writeFile(text)
        await file.sync()
      } finally {
        await file.close()
      }
      await take(temporary)
    } finally {
      await rm(temporary, { force: true })
    }
  }

  return {
    name,
    read,
    async create(root) {
      const text = formatRoot(root)
      try {
        await write(text, (temporary) => link(temporary, path))
      } catch (error) {
        if (toCode(error) === 'EEXIST') return undefined
        throw fail('written', error)
      }
      return parseRoot(text, name)
    },
    async update(root, version) {
      const known = await read()
      if (known?.version !== version) return undefined
      const text = formatRoot(root)
      try {
        await write(text, (temporary) => rename(temporary, path))
      } catch (error) {
        throw fail('written', error)
      }
      return parseRoot(text, name)
    },
  }
}

function formatRoot({ certificate, privateKey, roots }: RootTexts): string {
  return privateKey + certificate + (roots === certificate ? '' : roots)
}

function parseRoot(text: string, name: string): StoredRoot {
  const blocks = parsePem(text)
  const keys = blocks.filter((block) => block.label.endsWith('PRIVATE KEY'))
  const certificates = blocks.filter((block) => block.label === 'CERTIFICATE')
  const [key] = keys
  const [certificate, ...others] = certificates
  if (key === undefined || certificate === undefined || keys.length > 1) {
    throw new InvalidInput(
      `${name} does not hold one private key and a certificate; restore it from a backup, or delete it to begin with a new root`,
    )
  }
  const roots = others.map((other) => other.text).join('')
  return {
    certificate: certificate.text,
    privateKey: key.text,
    roots: roots === '' ? certificate.text : roots,
    version: createHash('sha256').update(text).digest('hex'),
  }
}

function toCode(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}
