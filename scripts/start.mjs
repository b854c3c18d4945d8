// SPDX-License-Identifier: Apache-2.0
// `npm start`: installs what is missing, builds, serves the sample mesh in the foreground and prints what to ask it.
// Flags after `npm start --` go to `addressd serve`, such as other ports or another folder. Signals go to the program; its exit code is ours.

import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { get } from 'node:http'
import { join } from 'node:path'
import { build, installMissing, requireNode, root } from './prepare.mjs'

const given = process.argv.slice(2)

/** The last value of a flag on the command line, `--flag value` or `--flag=value`. */
function selectFlag(flag) {
  let value
  for (const [i, word] of given.entries()) {
    if (word === flag) value = given[i + 1]
    else if (word.startsWith(`${flag}=`)) value = word.slice(flag.length + 1)
  }
  return value
}

/** Unless told otherwise: the samples, and nothing that another machine could reach. */
const defaults = {
  '--files': join(root, 'samples'),
  '--grpcAddr': '127.0.0.1:15010',
  '--secureGRPCAddr': '',
  '--httpAddr': '127.0.0.1:8080',
  '--monitoringAddr': '127.0.0.1:15014',
}

const flagOf = (flag) => selectFlag(flag) ?? defaults[flag]

/** Host and port to reach a listen address from here: every address is reached at this machine's own. */
function toReachable(address) {
  const colon = address.lastIndexOf(':')
  const host = address.slice(0, colon).replace(/^\[(.*)\]$/, '$1')
  return { host: ['', '0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host, port: Number(address.slice(colon + 1)) }
}

function isReadyPage({ host, port }) {
  return new Promise((resolve) => {
    const request = get({ host, port, path: '/ready', timeout: 1_000 }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve(false))
  })
}

function isListening({ host, port }) {
  return new Promise((resolve) => {
    const socket = connect({ host, port }, () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}

/** True once the program answers; false when it ended first. */
async function waitUntilReady(hasEnded) {
  const page = flagOf('--httpAddr')
  const grpc = toReachable(flagOf('--grpcAddr'))
  while (!hasEnded()) {
    if (await (page === '' ? isListening(grpc) : isReadyPage(toReachable(page)))) return !hasEnded()
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return false
}

/** Lines that can be pasted as they are in the clone. */
function formatQuestions() {
  const { host, port } = toReachable(flagOf('--grpcAddr'))
  const server = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const suffix = server === '127.0.0.1:15010' ? '' : ` --server ${server}`
  if (selectFlag('--files') !== undefined)
    return [`bin/addressctl workloads${suffix}`, `bin/addressctl services${suffix}`]
  const request = {
    node: { id: 'ztunnel~127.0.0.1~me.default~cluster.local' },
    type_url: 'type.googleapis.com/istio.workload.Address',
    resource_names_subscribe: ['net-1/10.20.1.11'],
  }
  const method = 'envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources'
  return [
    `bin/addressctl whatis 10.20.1.11${suffix}`,
    `bin/addressctl whatis 10.96.20.10${suffix}`,
    `bin/addressctl whatis cart.shop.svc.cluster.local${suffix}`,
    `bin/addressctl whatis vault.bank.example${suffix}`,
    `grpcurl -plaintext -d '${JSON.stringify(request)}' ${server} ${method}`,
  ]
}

requireNode()
installMissing()
build()

const args = Object.entries(defaults).flatMap(([flag, value]) =>
  selectFlag(flag) === undefined ? [`${flag}=${value}`] : [],
)
// A group of its own: an interrupt from the keyboard reaches the program once, through us.
const program = spawn(process.execPath, [join(root, 'bin/addressd'), 'serve', ...args, ...given], {
  stdio: 'inherit',
  detached: true,
})
let hasEnded = false
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => program.kill(signal))
program.on('error', (error) => {
  console.error(`addressd could not be started: ${error.message}`)
  process.exit(1)
})
program.on('exit', (code, signal) => {
  hasEnded = true
  process.exitCode = code ?? (signal === null ? 1 : 128)
})

if (flagOf('--grpcAddr') !== '' && (await waitUntilReady(() => hasEnded))) {
  const shown = selectFlag('--files') ?? 'samples/'
  const lines = formatQuestions().map((line) => `  ${line}\n`)
  console.log(
    `\nServing ${shown}; edits there show up at once. Ask it, from this folder in another terminal:\n\n${lines.join('')}`,
  )
}
