// SPDX-License-Identifier: Apache-2.0
// How many namespaces this process has open, for tests that look for descriptors left behind.

import { fstatSync, readdirSync, statSync } from 'node:fs'

/** Descriptors on namespaces, by whatever path each was opened: the text of the link says `net:` only for some. */
export function countOpenNamespaces(): number {
  const { dev } = statSync('/proc/self/ns/net')
  let count = 0
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      if (fstatSync(Number(fd)).dev === dev) count++
    } catch {
      // The descriptor of this very look, gone by now.
    }
  }
  return count
}
