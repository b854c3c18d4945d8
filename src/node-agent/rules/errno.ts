// SPDX-License-Identifier: Apache-2.0
// The kernel's refusals by number, as netlink reports them: their names, and whether the same may go well later. For everything here that speaks netlink.

import { constants } from 'node:os'

const names = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))
// Node does not name it: somebody changed the tables meanwhile.
const restart = 85
names.set(restart, 'ERESTART')

// A race, a shortage, an interface that is not up yet.
const passing = new Set([
  restart,
  ...(['EAGAIN', 'EBUSY', 'EINTR', 'ENOMEM', 'ENOBUFS', 'ENETDOWN', 'ENODEV'] as const).map((n) => constants.errno[n]),
])

export function formatErrno(errno: number): string {
  return names.get(errno) ?? `errno ${errno}`
}

export function isWorthRetrying(errno: number): boolean {
  return passing.has(errno)
}
