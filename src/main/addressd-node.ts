// SPDX-License-Identifier: Apache-2.0
// The program addressd-node. This version has its command line only: the agent of a node is not part of it, and it says so instead of pretending.

import { createProgram, runProgram, toProcessIo, type ProgramIo } from './program.js'

/** The whole program against the real outside. */
export async function main(): Promise<void> {
  process.exitCode = await runAddressdNode(process.argv.slice(2), toProcessIo())
}

/** Runs one command line. Exit codes: 0 help or version, 2 wrong usage, and `run` in this version. */
export async function runAddressdNode(argv: readonly string[], io: ProgramIo): Promise<number> {
  let code = 0
  const program = createProgram('addressd-node', io).description(
    'Enrols the pods of a node into the mesh. Not part of this version.',
  )
  program
    .command('run')
    .description('run the agent (not part of this version)')
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => {
      io.stderr(
        'addressd-node: the node agent is not part of this version; use istio-cni and ztunnel beside addressd\n',
      )
      code = 2
    })
  return (await runProgram(program, argv)) || code
}
