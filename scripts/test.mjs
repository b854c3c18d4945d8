// SPDX-License-Identifier: Apache-2.0
// `npm test [paths and flags of jest]`: installs what is missing, builds (tests start workers and programs from dist/), runs the tests and says
// at the end what was skipped and why. Its exit code is jest's. TEST_RESULT names a file for jest's result as JSON.

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { build, installMissing, requireNode, root } from './prepare.mjs'

requireNode()
installMissing()
build()

const scratch = mkdtempSync(join(tmpdir(), 'addressd-test-'))
const resultFile = process.env.TEST_RESULT || join(scratch, 'result.json')
const given = process.argv.slice(2)
const colors = process.stdout.isTTY ? ['--colors'] : []
// Whoever asks for these tests by name means to wait for the API server that they need.
const asked = given.some((path) => path.startsWith('test/cluster')) ? { TEST_BUILD_APISERVER: '1' } : {}
const jest = spawn(
  process.execPath,
  [join(root, 'node_modules/jest/bin/jest.js'), ...colors, '--json', `--outputFile=${resultFile}`, ...given],
  {
    cwd: root,
    stdio: ['inherit', 'pipe', 'pipe'],
    env: {
      ...process.env,
      ...asked,
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --experimental-vm-modules`.trim(),
    },
  },
)

/** Reasons that tests gave, each once. */
const reasons = new Set()

/** Passes a stream of the tests on and picks the reasons out of it. */
function pass(from, to) {
  let rest = ''
  const pick = (line) => {
    const reason = line.match(/SKIPPED: (.*?)\s*$/)?.[1]
    if (reason) reasons.add(reason)
  }
  from.setEncoding('utf8')
  from.on('data', (text) => {
    to.write(text)
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    lines.forEach(pick)
  })
  from.on('end', () => pick(rest))
}

pass(jest.stdout, process.stdout)
pass(jest.stderr, process.stderr)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => jest.kill(signal))

/** Full names of the tests that did not run, by file. */
function selectSkipped() {
  let result
  try {
    result = JSON.parse(readFileSync(resultFile, 'utf8'))
  } catch {
    // Jest ended before it could write one; it has said why.
    return []
  }
  return result.testResults.flatMap((file) =>
    file.assertionResults
      .filter(({ status }) => status === 'pending' || status === 'todo')
      .map(({ fullName }) => `${relative(root, file.name)}: ${fullName}`),
  )
}

jest.on('close', (code, signal) => {
  const skipped = selectSkipped()
  rmSync(scratch, { recursive: true, force: true })
  if (skipped.length > 0 || reasons.size > 0) {
    console.log(`\n${skipped.length} tests were SKIPPED:`)
    for (const name of skipped) console.log(`  ${name}`)
    console.log('because:')
    for (const reason of reasons.size > 0 ? reasons : ['(no test said why; a name filter skips all others)']) {
      console.log(`  ${reason}`)
    }
  }
  process.exitCode = code ?? (signal === null ? 1 : 128)
})
