// SPDX-License-Identifier: Apache-2.0
// The package that reads .proto files, loaded when the first of them is read: it brings a hundred files with it, and a server that only pushes needs none.

import type * as loader from '@grpc/proto-loader'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** As that of the package. */
export const loadSync: typeof loader.loadSync = (...what) =>
  (require('@grpc/proto-loader') as typeof loader).loadSync(...what)
