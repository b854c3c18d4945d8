// SPDX-License-Identifier: Apache-2.0
// What ztunnel opens in a pod's namespace, and what is open there. For tests with a real one.

import type { TestNetns } from '../support/test-netns.js'

/** The sockets of a pod that ztunnel serves completely. */
export const servedSockets = [
  'tcp *:15001',
  'tcp *:15006',
  'tcp *:15008',
  'tcp 127.0.0.1:15053',
  'tcp [::1]:15053',
  'udp 127.0.0.1:15053',
  'udp [::1]:15053',
] as const

/** Sockets of ztunnel in a namespace, as `ss` lists them, sorted; each as often as it is open. */
export function listSockets(netns: TestNetns): readonly string[] {
  return netns
    .run(['ss', '-Hlntu'])
    .split('\n')
    .flatMap((line) => {
      const [protocol = '', , , , local = ''] = line.trim().split(/\s+/)
      return /:150\d\d$/.test(local) ? [`${protocol} ${local}`] : []
    })
    .sort()
}
