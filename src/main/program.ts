// SPDX-License-Identifier: Apache-2.0
// What the three programs share: their version and the way the outside reaches them. The only module beside the entry points that touches `process`.

import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import type { SignalEmitter } from '../base/shutdown.js'

/** The outside of one program, so that tests can stand in for it. */
export interface ProgramIo {
  stdout(text: string): void
  stderr(text: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  /** Where SIGTERM and SIGINT arrive. */
  readonly signals?: SignalEmitter
}

/** The outside of a program that runs until it is told to stop. */
export interface CrashIo extends ProgramIo {
  /** Told how to report what nobody caught; only a real process has such things. */
  readonly onCrash?: (report: (error: unknown) => void) => void
}

/** Reports what nobody caught and ends the process. */
function listenForCrashes(report: (error: unknown) => void): void {
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error: unknown) => {
      report(error)
      process.exit(1)
    })
  }
}

/** The real outside. */
export function toProcessIo(): ProgramIo {
  // `... | head` ends the pipe early; that is no failure of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(0)
  })
  return {
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    env: process.env,
    signals: process,
  }
}

/** Version of this package. */
export function readVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/** Runs a whole program against the real outside. */
export async function runMain(run: (argv: readonly string[], io: CrashIo) => Promise<number>): Promise<void> {
  const code = await run(process.argv.slice(2), { ...toProcessIo(), onCrash: listenForCrashes })
  process.exitCode = code
  // Whatever still holds the event loop is of no use any more; give stdout a moment.
  setTimeout(() => process.exit(code), 500).unref()
}

/** A commander program that throws instead of ending the process and writes where it is told. */
export function createProgram(name: string, io: ProgramIo): Command {
  return new Command(name)
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this')
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout(text),
      writeErr: (text) => io.stderr(text),
      outputError: (text, write) => write(text.replace(/^error: /, `${name}: `)),
    })
}

/** Runs a commander program. Gives 0 after help and version, 2 for wrong usage; other errors pass through. */
export async function runProgram(program: Command, argv: readonly string[]): Promise<number> {
  try {
    await program.parseAsync(argv, { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    throw error
  }
}
