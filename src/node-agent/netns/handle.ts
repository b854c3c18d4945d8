// SPDX-License-Identifier: Apache-2.0
// Handles of network namespaces: how they are made and counted. For everybody who opens one; whoever holds a handle closes it.

import { fstatSync } from 'node:fs'
import { InvalidInput, Retryable } from '../../base/errors.js'
import type { Netns, NetnsId } from './netns.js'
import {
  SystemCallError,
  cloneNewNet,
  closeFd,
  filesystemMagic,
  namespaceType,
  nsfsMagic,
  openFile,
  openPath,
} from './sys.js'

/** One descriptor and how many handles hold it. */
class Descriptor implements NetnsId {
  #handles = 0

  constructor(
    readonly fd: number,
    readonly inode: bigint,
    readonly device: bigint,
  ) {}

  take(): Netns {
    this.#handles += 1
    return new Handle(this)
  }

  drop(): void {
    this.#handles -= 1
    if (this.#handles === 0) closeFd(this.fd)
  }
}

class Handle implements Netns {
  readonly inode: bigint
  readonly device: bigint
  readonly #of: Descriptor
  #isOpen = true

  constructor(of: Descriptor) {
    this.#of = of
    this.inode = of.inode
    this.device = of.device
  }

  get fd(): number {
    if (!this.#isOpen) throw new Error('the handle of this namespace is closed')
    return this.#of.fd
  }

  share(): Netns {
    if (!this.#isOpen) throw new Error('the handle of this namespace is closed')
    return this.#of.take()
  }

  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#of.drop()
  }
}

/**
 * Takes over an open descriptor, whatever comes of it: the first handle, or InvalidInput (it is no network namespace) and the descriptor is closed.
 * `name` is for the message.
 */
export function createNetns(fd: number, name = `descriptor ${fd}`): Netns {
  try {
    if (filesystemMagic(fd) !== nsfsMagic || namespaceType(fd) !== cloneNewNet) {
      throw new InvalidInput(`${name} is no network namespace`)
    }
    const { ino, dev } = fstatSync(fd, { bigint: true })
    return new Descriptor(fd, ino, dev).take()
  } catch (error) {
    closeFd(fd)
    throw error
  }
}

/** Opens a file that stands for a namespace (a bind mount, `/proc/PID/ns/net`). Throws InvalidInput when it is none, Retryable when it is not there. */
export function openNetnsFile(path: string): Netns {
  // Looked at before it is opened: to open a device or a pipe can have effects, or wait.
  const looked = tryOpen(path, openPath, path)
  try {
    if (filesystemMagic(looked) !== nsfsMagic) throw new InvalidInput(`${path} is no network namespace`)
    return createNetns(tryOpen(path, openFile, `/proc/self/fd/${looked}`), path)
  } finally {
    closeFd(looked)
  }
}

/** The namespace of the node itself: that of process 1 in the node's /proc. Errors as above. */
export function openHostNetns(procRoot: string): Netns {
  return openNetnsFile(`${procRoot}/1/ns/net`)
}

const passing = ['ENOENT', 'ESRCH', 'EMFILE', 'ENFILE', 'ENOMEM', 'EINTR']

function tryOpen(name: string, open: (path: string) => number, path: string): number {
  try {
    return open(path)
  } catch (error) {
    if (!(error instanceof SystemCallError)) throw error
    const message = `cannot open the network namespace ${name}: ${error.code}`
    throw passing.includes(error.code) ? new Retryable(message, error) : new InvalidInput(message, error)
  }
}
