// SPDX-License-Identifier: Apache-2.0
// `npm run build`: src/ to dist/. Quick when nothing changed. Files that the built code reads (proto/, package.json) stay where they are.

import { build, requireNode } from './prepare.mjs'

requireNode()
build()
