// SPDX-License-Identifier: Apache-2.0
// Paths of sockets and their folder as settings: absolute, short enough for a kernel, and where files can be made. Makes nothing.

import { realpathSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { InvalidInput } from '../base/errors.js'
import type { ValueType } from '../base/settings.js'

/** What a kernel takes as the path of a socket is 107 bytes, and a socket is made under a longer name first. */
const longestSocket = 102
const longestFolder = longestSocket - '/pluginevent.sock'.length

/** Kernels and devices show themselves here; a folder is never made below them, however long one tries. */
const foreignFolders = ['/proc', '/sys', '/dev']

export const socketPathValue = toPathValue('PATH', longestSocket)

/** A folder that sockets are made in. */
export const socketFolderValue = toPathValue('DIR', longestFolder)

function toPathValue(label: string, longest: number): ValueType<string> {
  return {
    label,
    parse(text) {
      if (!text.startsWith('/')) throw new InvalidInput(`"${text}" is no absolute path`)
      if (Buffer.byteLength(text) > longest) {
        throw new InvalidInput(`"${text}" is too long for sockets; at most ${longest} bytes fit`)
      }
      const path = resolve(text)
      for (const place of [path, followLinks(path)]) {
        const foreign = foreignFolders.find((folder) => place === folder || place.startsWith(`${folder}/`))
        if (foreign !== undefined) throw new InvalidInput(`"${text}" is below ${foreign}, where no sockets can be made`)
      }
      return text
    },
  }
}

/** Where the part of a path that is there leads to, with the rest of it. */
function followLinks(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const parent = dirname(path)
    return parent === path ? path : resolve(followLinks(parent), path.slice(parent.length).replace(/^\/+/, ''))
  }
}
