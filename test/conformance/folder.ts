// SPDX-License-Identifier: Apache-2.0
// Where recorded cases lie: in the clone, or in another folder of the same layout that CONFORMANCE_DIR names.

import { existsSync, readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join, resolve } from 'node:path'

const ownCases = fileURLToPath(new URL('./cases', import.meta.url))
const kinds = ['address', 'authorization', 'xds', 'ca', 'ztunnel', 'node']

/** The folder of one kind; undefined when it is missing there while another kind is not. Throws when there is no kind at all. */
export function casesFolder(kind: string): string | undefined {
  const named = process.env.CONFORMANCE_DIR ?? ''
  const root = named === '' ? ownCases : resolve(named)
  const isThere = (name: string): boolean => existsSync(join(root, name)) && statSync(join(root, name)).isDirectory()
  if (!kinds.some(isThere)) throw new Error(`${root} holds no recorded cases: none of ${kinds.join(', ')} is in it`)
  return isThere(kind) ? join(root, kind) : undefined
}

/** Paths of the cases of one kind, `*.json` or `*\/case.json`, by name. Throws when the folder is there and holds none. */
export function listCases(folder: string): readonly string[] {
  const found = readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) {
      const path = join(folder, entry.name, 'case.json')
      return existsSync(path) ? [path] : []
    }
    return entry.name.endsWith('.json') ? [join(folder, entry.name)] : []
  })
  if (found.length === 0) throw new Error(`${folder} holds no case`)
  return found.sort()
}
