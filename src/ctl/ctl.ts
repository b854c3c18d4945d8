// SPDX-License-Identifier: Apache-2.0
// addressctl: reads a command line, asks, prints. Everything of the outside comes in through `io`; the exit code is the result.

import { Command, CommanderError, Option } from 'commander'
import { formatError, InvalidInput } from '../base/errors.js'
import { parseDuration } from '../base/go-values.js'
import { DEFAULT_NODE_SOCKET } from '../wire/node-answer.js'
import { CtlFailure } from './failure.js'
import type { CommonOptions, ListName } from './options.js'
import { parseOutputForm, type CtlIo } from './output.js'

export type { CtlIo } from './output.js'

const defaultServer = '127.0.0.1:15010'

/**
 * Runs one command. `argv` is what follows the program's name.
 * Exit codes: 0 answered, 1 nobody has it, 2 not a question or wrong usage, 3 could not ask.
 */
export async function runCtl(argv: readonly string[], io: CtlIo): Promise<number> {
  try {
    await createProgram(io).parseAsync(argv, { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    io.stderr(`addressctl: ${formatError(error)}\n`)
    if (error instanceof CtlFailure) return error.exitCode
    return error instanceof InvalidInput ? 2 : 3
  }
}

function createProgram(io: CtlIo): Command {
  const program = new Command('addressctl')
    .description('Asks addressd what an address, a name or a client is.')
    .addHelpText('after', `\n${examples}`)
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout(text),
      writeErr: (text) => io.stderr(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'addressctl: ')),
    })
    .helpOption('-h, --help', 'print this')
    .helpCommand('help [command]', 'print this, or how to use a command')
    .showHelpAfterError('(addressctl --help says more)')
    .exitOverride()
    .option(
      '--server <host:port>',
      'address of addressd; ADDRESSD_SERVER says it too',
      io.env['ADDRESSD_SERVER'] ?? defaultServer,
    )
    .option('--timeout <duration>', 'longest wait for an answer, such as 500ms or 1m', '10s')
  addWhatIs(program, io)
  addLists(program, io)
  return program
}

function addWhatIs(program: Command, io: CtlIo): void {
  program
    .command('whatis')
    .argument('<question>', 'IP address, network/ip, range, host name, namespace/name, namespace/hostname or uid')
    .description('say what has this address or name')
    .option('-w, --watch', 'go on and print each change, until interrupted')
    .option('--node', 'ask the agent of this node instead of addressd; it answers also while addressd is away')
    .option(
      '--node-socket <path>',
      'where the agent listens; ADDRESSD_NODE_SOCKET says it too',
      io.env['ADDRESSD_NODE_SOCKET'] ?? DEFAULT_NODE_SOCKET,
    )
    .addOption(outputOption())
    .action(async (question: string, _options: unknown, command: Command) => {
      const { node, nodeSocket: socket } = command.opts<{ node?: boolean; nodeSocket: string }>()
      if (node === true) {
        const { askWhatIsOfNode } = await import('./whatis-node.js')
        const options = { ...readAnswering(command), socket, watch: command.opts<{ watch?: boolean }>().watch === true }
        await askWhatIsOfNode(question, options, io)
        return
      }
      const { askWhatIs } = await import('./whatis.js')
      const { watch } = command.opts<{ watch?: boolean }>()
      await askWhatIs(question, { ...readCommon(command), watch: watch === true }, io)
    })
}

const lists: Readonly<Record<ListName, string>> = {
  workloads: 'list pods, workload entries and other endpoints',
  services: 'list services and how many of their endpoints are healthy',
  policies: 'list authorization policies',
  clients: 'list connected clients and what they acknowledged or refused',
}

function addLists(program: Command, io: CtlIo): void {
  for (const name of Object.keys(lists) as ListName[]) {
    program
      .command(name)
      .description(lists[name])
      .option('-n, --namespace <namespace>', 'only of this namespace')
      .option('--node <node>', 'only on this Kubernetes node')
      .addOption(outputOption())
      .action(async (_options: unknown, command: Command) => {
        const { printList } = await import('./lists.js')
        const { namespace = '', node = '' } = command.opts<{ namespace?: string; node?: string }>()
        await printList(name, { ...readCommon(command), namespace, node }, io)
      })
  }
}

function outputOption(): Option {
  return new Option('-o, --output <form>', 'table, wide, json or yaml').default('table')
}

/** Throws InvalidInput for a value that cannot be meant. */
function readCommon(command: Command): CommonOptions {
  const { server } = command.optsWithGlobals<{ server: string }>()
  const [, port] = /^(?:\[[0-9a-fA-F:.%]+\]|[^:/\s]+):([0-9]{1,5})$/.exec(server) ?? []
  if (port === undefined || Number(port) === 0 || Number(port) > 65_535) {
    throw new InvalidInput(
      `"${server}" is not an address to ask; write HOST:PORT, such as ${defaultServer}, in --server or ADDRESSD_SERVER`,
    )
  }
  return { server, ...readAnswering(command) }
}

/** What matters whoever is asked. */
function readAnswering(command: Command): Omit<CommonOptions, 'server'> {
  const { timeout, output } = command.optsWithGlobals<{ timeout: string; output: string }>()
  const timeoutMs = parseDuration(timeout)
  if (timeoutMs <= 0) throw new InvalidInput(`--timeout ${timeout}: there must be some time to wait`)
  return { timeoutMs, output: parseOutputForm(output) }
}

const examples = `Examples:
  addressctl whatis 10.0.0.5                     an address, in every network
  addressctl whatis network-2/10.0.0.5           in one network
  addressctl whatis web.shop.svc.cluster.local   a host name
  addressctl whatis shop/web-0 --watch           a pod, again whenever it changes
  addressctl whatis 10.0.0.5 --node              as the agent of this node knows it
  addressctl workloads -n shop -o wide
  addressctl clients --node node-1
  addressctl --version

Exit codes:
  0 answered   1 nobody has it   2 not a question or wrong usage   3 could not ask
`
