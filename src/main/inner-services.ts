// SPDX-License-Identifier: Apache-2.0
// The gRPC services beside discovery: health, reflection and the questions of people. For serve.ts, which has the server that they are added to.

import type { Server } from '@grpc/grpc-js'
import { HealthImplementation } from 'grpc-health-check'
import type { Clock } from '../base/clock.js'
import { isLoopback } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import type { Explainer } from '../debug/explainer.js'
import { addInspectService, type InspectCall } from '../debug/inspect-service.js'
import { INSPECT_SERVICE } from '../wire/inspect.js'
import { addReflection } from '../wire/reflection.js'
import { parseCaller } from '../xds/caller.js'
import type { ClientView } from '../xds/client-view.js'
import type { ResourceStore } from '../xds/source.js'

const ADS = 'envoy.service.discovery.v3.AggregatedDiscoveryService'

export interface InnerServicesOptions {
  readonly store: ResourceStore
  readonly explainer: Explainer
  readonly clients: () => readonly ClientView[]
  readonly clock: Clock
  readonly log: Logger
}

export interface Health {
  /** What health checks are told. */
  setServing(serving: boolean): void
}

/** Adds the services to a server that does not serve yet. Health says "not serving" until told otherwise. */
export function addInnerServices(server: Server, options: InnerServicesOptions): Health {
  const health = new HealthImplementation({ '': 'NOT_SERVING', [ADS]: 'NOT_SERVING' })
  health.addToServer(server)
  addInspectService(server, { ...options, admits: isLocalCall })
  addReflection(server, [ADS, INSPECT_SERVICE, 'grpc.health.v1.Health'])
  return {
    setServing(serving) {
      for (const service of ['', ADS]) health.setStatus(service, serving ? 'SERVING' : 'NOT_SERVING')
    },
  }
}

/** People may ask from this machine; whoever else there is could not prove who they are yet. */
function isLocalCall(call: InspectCall): boolean {
  const address = parseCaller(call.metadata)?.address ?? ''
  return isLoopback(address.slice(0, address.lastIndexOf(':')).replace(/^\[|\]$/g, ''))
}
