// SPDX-License-Identifier: Apache-2.0
// The program addressctl against the real outside: hands it the command line, the environment and Ctrl-C.

import { runCtl } from '../ctl/ctl.js'
import { createShutdown } from '../base/shutdown.js'
import { readVersion } from './program.js'

/** The whole program. Its exit codes are those of runCtl. */
export async function main(): Promise<void> {
  const argv = process.argv.slice(2)
  if (argv.length === 1 && (argv[0] === '--version' || argv[0] === '-V')) {
    process.stdout.write(`${readVersion()}\n`)
    return
  }
  // `addressctl workloads | head` ends the pipe early; that is no failure of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(0)
  })
  const shutdown = createShutdown(process)
  shutdown.now.addEventListener('abort', () => process.exit(130))
  process.exitCode = await runCtl(argv, {
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    env: process.env,
    signal: shutdown.graceful,
    isTty: process.stdout.isTTY,
  })
  shutdown.dispose()
}
