// SPDX-License-Identifier: Apache-2.0
// The agent's client of the control plane, made as the settings say, and what it is told of the pods enrolled here. Opens nothing.

import type { Registry } from 'prom-client'
import { toJsonReply, type AdminRoute } from '../base/admin-http.js'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import { createAddresses, type Addresses } from '../node-agent/addresses.js'
import { isPlaintextAddress } from '../node-agent/addresses/target.js'
import type { EnrolmentListener } from '../node-agent/agent-parts.js'
import { WHATIS_PATH, type NodeRefusal } from '../wire/node-answer.js'
import type { NodeSettings } from './node-settings-table.js'

export interface NodeAddressesOptions {
  readonly settings: NodeSettings
  readonly clock: Clock
  readonly log: Logger
  readonly random?: () => number
}

/** Undefined when the settings name no control plane. */
export function createNodeAddresses(options: NodeAddressesOptions, registry: Registry): Addresses | undefined {
  const { settings, clock, log, random = Math.random } = options
  if (settings.xdsAddress === '') return undefined
  const isPlaintext = isPlaintextAddress(settings.xdsAddress)
  return createAddresses({
    target: settings.xdsAddress,
    isPlaintext,
    tokenFile: isPlaintext ? undefined : settings.tokenFile,
    rootFile: isPlaintext ? undefined : settings.xdsRootFile,
    nodeName: settings.nodeName,
    namespace: settings.podNamespace,
    podName: settings.podName === '' ? undefined : settings.podName,
    clusterId: settings.clusterId,
    network: settings.network,
    clock,
    log: log.child({ scope: 'addresses' }),
    registry,
    cacheEntries: settings.cacheEntries,
    random,
  })
}

/** Says why nothing can be asked where the settings name no control plane. */
export const noControlPlaneRoutes: readonly AdminRoute[] = [
  {
    path: WHATIS_PATH,
    methods: ['GET'],
    about: 'says that nobody is asked here',
    handle() {
      const body: NodeRefusal = { error: 'this agent asks no control plane: set XDS_ADDRESS' }
      return toJsonReply(body, new URLSearchParams(), 503)
    },
  },
]

/** What is enrolled here has to be served as such there. */
export function toEnrolmentListener({ book }: Addresses): EnrolmentListener {
  return { onEnrolled: (pod) => book.expect(pod), onReleased: (uid) => book.forget(uid) }
}
