// SPDX-License-Identifier: Apache-2.0
// A program for a test: writes a kernel setting in the namespace that argv names, through the product's workers from dist/, and prints what became of it.

import { writeFileSync } from 'node:fs'
import { openNetnsFile } from '../../dist/node-agent/netns/handle.js'
import { createNetnsWorkers } from '../../dist/node-agent/netns/workers.js'

const [path, name, value] = process.argv.slice(2)
const workers = createNetnsWorkers({ log: console, entry: new URL('./netns-test-jobs.mjs', import.meta.url), count: 1 })
const netns = openNetnsFile(path)

/** The errno of a write to the setting where this program itself is. */
function writeHere() {
  try {
    writeFileSync(`/proc/sys/${name}`, value)
    return 'written'
  } catch (error) {
    return error.code
  }
}

const first = await workers.run('sysctl', { netns, args: { name, value } })
const again = await workers.run('sysctl', { netns, args: { name, value } })
const missing = await workers.run('sysctl', { netns, args: { name: 'net/there/is/none', value } })
const refused = await workers.run('sysctl', { netns, args: { name, value: 'no number' } }).catch(({ code }) => code)
netns.close()
await workers.close()
console.log(JSON.stringify({ first, again, missing, refused, here: writeHere() }))
