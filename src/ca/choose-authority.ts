// SPDX-License-Identifier: Apache-2.0
// Which authority a server has: the one that people plugged in, else one of its own. For composition roots; reads the folder once.

import type { Authority } from './authority.js'
import { readCaFolder } from './ca-folder.js'
import { PluggedInAuthority } from './plugged-in.js'
import type { PluggedInOptions } from './plugged-in.js'
import { SelfSignedAuthority } from './self-signed.js'
import type { SelfSignedOptions } from './self-signed.js'

export interface AuthorityOptions {
  readonly pluggedIn: PluggedInOptions
  readonly selfSigned: Omit<SelfSignedOptions, 'extraRoots' | 'clock' | 'log'>
  /** A complete folder that bears the mark of the mesh itself counts as none, but its roots are trusted too. */
  readonly isFolderSelfSigned?: boolean
}

/**
 * The authority to start. Rejects with InvalidInput when the folder holds only a part of what it must, and with Retryable when it cannot
 * be read.
 */
export async function chooseAuthority(options: AuthorityOptions): Promise<Authority> {
  const { pluggedIn, selfSigned } = options
  const { clock, log, folder } = pluggedIn
  const found = await readCaFolder(folder)
  if (found === undefined) return new SelfSignedAuthority({ ...selfSigned, clock, log })
  if (found.isGenerated && options.isFolderSelfSigned === true) {
    return new SelfSignedAuthority({ ...selfSigned, clock, log, extraRoots: found.texts.roots.text })
  }
  return new PluggedInAuthority(pluggedIn)
}
