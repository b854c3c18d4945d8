#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// The fake ztunnel as a program: `node test/support/run-fake-ztunnel.mjs --zds PATH`; `--help` says the rest.

import { register } from 'node:module'

register('./typescript-hooks.mjs', import.meta.url)
const { main } = await import('./fake-ztunnel-program.ts')
await main(process.argv.slice(2))
