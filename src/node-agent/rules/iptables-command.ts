// SPDX-License-Identifier: Apache-2.0
// The one place that starts programs for rules (iptables, ipset): inside a worker's job, in the namespace the thread is in, and written down, so that
// everybody can see and count them. Judges an exit code; knows no rule.

import { spawnSync } from 'node:child_process'
import { InvalidInput, Retryable } from '../../base/errors.js'
import { type WorkerPlace, insidePlace } from '../netns/job.js'
import { type ErrorParts, fromErrorParts, toErrorParts } from '../netns/job-messages.js'

/** A program by its absolute path. */
export interface Command {
  readonly file: string
  readonly args: readonly string[]
  readonly stdin?: string
  readonly env?: Readonly<Record<string, string>>
}

/** A program that was run. `exitCode` is null when a signal or the time limit ended it, or it could not be started. */
export interface CommandRecord {
  readonly file: string
  readonly args: readonly string[]
  readonly exitCode: number | null
}

export interface CommandResult extends CommandRecord {
  readonly stdout: string
  readonly stderr: string
  /** Why there is no exit code. */
  readonly failure: string | undefined
}

export type RunCommand = (command: Command) => CommandResult

const timeLimitMs = 20_000
const mostOutputBytes = 256 * 1024 * 1024
// A program that loads a kernel module looks for the loader here. Nothing of the agent's own environment is any of their business.
const plainEnvironment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }

/** Runs programs one after the other on this thread and keeps a record of each. */
export class CommandLog {
  readonly records: CommandRecord[] = []

  readonly run: RunCommand = ({ file, args, stdin = '', env = {} }) => {
    const { status, signal, error, stdout, stderr } = spawnSync(file, args, {
      input: stdin,
      env: { ...plainEnvironment, ...env },
      timeout: timeLimitMs,
      killSignal: 'SIGKILL',
      maxBuffer: mostOutputBytes,
      encoding: 'utf8',
    })
    this.records.push({ file, args, exitCode: status })
    const failure = status === null ? (error?.message ?? `ended by ${signal ?? 'nobody knows what'}`) : undefined
    // Where the program did not start there is no output, whatever the types say.
    const text = (output: string | null): string => output ?? ''
    return { file, args, exitCode: status, stdout: text(stdout), stderr: text(stderr), failure }
  }
}

/** As an error of its class: what trying again may help is Retryable (no memory, a lock, a signal), what was refused is InvalidInput. */
export function toCommandError(result: CommandResult): Error {
  const name = [result.file, ...result.args].join(' ')
  const said = result.stderr.trim().split('\n').slice(0, 4).join(' ').slice(0, 500)
  const why = result.failure ?? `exit code ${result.exitCode ?? 'none'}${said === '' ? '' : `: ${said}`}`
  // 4 is what every iptables ends with when a resource (the lock, memory) is missing.
  const isPassing = result.exitCode === null || result.exitCode === 4
  return isPassing ? new Retryable(`${name}: ${why}`) : new InvalidInput(`${name}: ${why}`)
}

/** The result when the program succeeded; throws what toCommandError says otherwise. */
export function mustRun(run: RunCommand, command: Command): CommandResult {
  const result = run(command)
  if (result.exitCode !== 0) throw toCommandError(result)
  return result
}

/** What a job that runs programs comes back with: its result or its error, and the programs in either case. */
export interface Ran<T> {
  readonly records: readonly CommandRecord[]
  readonly result?: T
  readonly error?: ErrorParts
}

/** Runs `work` with a log of its own and gives back how it ended. For jobs. */
export function runLogged<T>(work: (commands: CommandLog) => T): Ran<T> {
  const commands = new CommandLog()
  try {
    return { result: work(commands), records: commands.records }
  } catch (error) {
    return { error: toErrorParts(error), records: commands.records }
  }
}

/** Reports the programs and gives the result, or throws the error with its class. For the main thread. */
export function takeResult<T>(ran: Ran<T>, onCommand?: (record: CommandRecord) => void): T {
  if (onCommand !== undefined) for (const record of ran.records) onCommand(record)
  if (ran.error !== undefined) throw fromErrorParts(ran.error)
  return ran.result as T
}

/** Runs programs in the namespace, in order, each whatever became of the one before. */
export function runCommands(place: WorkerPlace, commands: readonly Command[]): Ran<readonly CommandResult[]> {
  return insidePlace(place, () => runLogged(({ run }) => commands.map(run)))
}
