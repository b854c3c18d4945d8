// SPDX-License-Identifier: Apache-2.0
// What a running addressd is made of, for its own pages and for tests that look inside.

import type { Registry } from 'prom-client'
import type { Authentication } from '../auth/authentication.js'
import type { Controllers } from '../control/controllers.js'
import type { Feed } from '../kube/feed.js'
import type { XdsServer } from '../xds/server.js'
import type { Certificates } from './certificates.js'
import type { ServedGraph } from './served-graph.js'

export interface ServerParts {
  readonly served: ServedGraph
  readonly xds: XdsServer
  readonly feed: Feed
  readonly registry: Registry
  readonly authentication: Authentication
  readonly certificates: Certificates
  /** Undefined where nothing is written back. */
  readonly writers: Controllers | undefined
}
