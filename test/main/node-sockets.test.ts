// SPDX-License-Identifier: Apache-2.0
// Which sockets stop the start of an agent: those that are somebody's, whatever their kind, and no leftovers.

import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { linkSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Fatal } from '../../src/base/errors.js'
import { refuseTakenSockets } from '../../src/main/node-sockets.js'
import { acceptOne, closeDescriptor, listenAt } from '../../src/node-agent/zds/seqpacket.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sockets-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Somebody listens as plugins expect it; resolves with what ends that. */
async function listen(path: string): Promise<() => Promise<void>> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen({ path }, resolve))
  return () => new Promise((resolve) => server.close(() => resolve()))
}

test('a socket at which somebody listens is refused by its name', async () => {
  const path = join(folder, 'taken.sock')
  const close = await listen(path)
  const looking = refuseTakenSockets([join(folder, 'free.sock'), path])
  await expect(looking).rejects.toThrow(
    new Fatal(`another process listens at ${path}; stop the other agent of this node first`),
  )
  await expect(looking).rejects.toBeInstanceOf(Fatal)
  await close()
})

test('a socket of ztunnels that somebody listens at is refused too, and that one is not even called', async () => {
  const path = join(folder, 'z.sock')
  const fd = listenAt(path, 8)
  await expect(refuseTakenSockets([path])).rejects.toThrow(path)
  expect(acceptOne(fd)).toBeUndefined()
  closeDescriptor(fd)
  await refuseTakenSockets([path])
})

test('what nobody listens at is no hindrance: nothing, a leftover, an ordinary file', async () => {
  const first = join(folder, 'first.sock')
  const leftover = join(folder, 'leftover.sock')
  const close = await listen(first)
  linkSync(first, leftover)
  await close()
  const file = join(folder, 'file')
  writeFileSync(file, '')
  await refuseTakenSockets([join(folder, 'nothing'), leftover, file])
})
