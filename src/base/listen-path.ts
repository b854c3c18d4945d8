// SPDX-License-Identifier: Apache-2.0
// Sockets in the file system: bound under another name first, so that the path always leads to a listener with the rights it shall have, and one that ends never takes
// its successor's socket away. Opens nothing unless asked by a composition root.

import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, rename, unlink } from 'node:fs/promises'
import type { Server } from 'node:net'
import { dirname } from 'node:path'
import { Fatal, formatError } from './errors.js'

/** What a kernel takes as the path of a socket, in bytes. */
const longestPath = 107

/**
 * Binds a server to `path` with these rights, in place of a socket that was there; the folder is made when there is none. `flag` names the setting that chose it.
 * Rejects with Fatal when it cannot be had. The result takes the path away again, unless somebody else has put a socket there meanwhile.
 */
export async function listenPath(
  server: Server,
  path: string,
  mode: number,
  flag: string,
): Promise<() => Promise<void>> {
  const scratch = `${path}.${randomBytes(3).toString('hex')}`
  try {
    if (Buffer.byteLength(scratch) > longestPath)
      throw new Error(`it is too long, at most ${longestPath - 7} bytes fit`)
    await mkdir(dirname(path), { recursive: true })
    const before = await lstat(path).catch(() => undefined) // nothing there is the usual case
    if (before !== undefined && !before.isSocket()) throw new Error('there is something that is no socket')
    await bind(server, scratch)
    await chmod(scratch, mode)
    await rename(scratch, path)
    const { ino } = await lstat(path)
    return async () => {
      const now = await lstat(path).catch(() => undefined) // gone already
      if (now?.ino === ino) await unlink(path).catch(() => undefined)
    }
  } catch (error) {
    if (server.listening) server.close()
    throw new Fatal(`${flag}=${path}: cannot listen there: ${formatError(error)}`, error)
  }
}

function bind(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path }, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
}
