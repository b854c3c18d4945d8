// SPDX-License-Identifier: Apache-2.0
// HTTP on the run folder's sockets: `/cni` for addressd-cni, `/cmdadd` for istio-cni's plugin (its own wire), `/log` on a socket of its own for the latter's
// log lines. Anybody may connect, but root and the agent's own user alone are heard. A request ends with its client: who goes away aborts what is done for
// it. Decides nothing about pods.

import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, rename, rm, stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { dirname } from 'node:path'
import { Counter } from 'prom-client'
import { sleep } from '../base/clock.js'
import { Fatal, InvalidInput, formatError } from '../base/errors.js'
import { answerCniCall, formatNotEnrolled, type CniJudge } from './cni-answer.js'
import type { CniServer, CniServerOptions, PodVerdict, RuntimePod } from './cni-decisions.js'
import { Callers, callerRefusal } from './plugin-caller.js'
import { parseAddEvent, type AddEvent } from './plugin-protocol/add-event.js'
import {
  cniPath,
  exitCodeHeader,
  maxEnvironmentBytes,
  maxStdinBytes,
  parsePluginCall,
} from './plugin-protocol/framing.js'
import { parseLogLines } from './plugin-protocol/log-lines.js'

/** A pod that the runtime starts is known a moment later, or not at all. */
const lookUpTries = 10
const lookUpPauseMs = 10

const maxEventBytes = 1 << 20
const maxLogBytes = 4 << 20
/** Longest path of a socket on Linux, in bytes. */
const maxSocketPath = 107

interface Reply {
  readonly status: number
  readonly body: Uint8Array | string
  readonly headers?: Readonly<Record<string, string>>
}

const success: Reply = { status: 200, body: '' }

type Route = (body: Buffer, signal: AbortSignal) => Promise<Reply>

/** The server of one agent. Nothing is opened before listen(). */
export function createCniServer(options: CniServerOptions): CniServer {
  const stopped = new AbortController()
  const requests = new Counter({
    name: 'istio_cni_plugin_requests_total',
    help: 'Pods that plugins announced, by the HTTP status of the answer (what it would be, for our own plugin).',
    labelNames: ['response_code'] as const,
    registers: [options.registry],
  })
  const commands = new Counter({
    name: 'addressd_node_cni_commands_total',
    help: 'Executions of addressd-cni that asked the agent, by command and outcome.',
    labelNames: ['command', 'outcome'] as const,
    registers: [options.registry],
  })
  const judge: CniJudge = {
    decisions: options.decisions,
    awaitVerdict: (pod, signal) => awaitVerdict(options, pod, signal),
    excludeNamespaces: options.excludeNamespaces,
    podNamespace: options.podNamespace,
    agentPodPrefixes: ['istio-cni-node-', ...options.agentPodPrefixes],
    log: options.log,
  }

  const cni: Route = async (body, signal) => {
    const call = parsePluginCall(body)
    const { outcome, answer } = await answerCniCall(judge, call, signal)
    const command = call.env.get('CNI_COMMAND') ?? ''
    commands.inc({ command: /^[A-Z]{1,10}$/.test(command) ? command : 'other', outcome })
    if (command === 'ADD') {
      requests.inc({ response_code: outcome === 'refused' ? 400 : outcome === 'failed' ? 500 : 200 })
      const fields = { containerId: call.env.get('CNI_CONTAINERID'), args: call.env.get('CNI_ARGS'), outcome }
      if (answer.exitCode === 0) options.log.debug(fields, 'sandbox may start')
      else options.log.warn({ ...fields, answer: Buffer.from(answer.stdout).toString('utf8') }, 'sandbox may not start')
    }
    return { status: 200, body: answer.stdout, headers: { [exitCodeHeader]: String(answer.exitCode) } }
  }

  const cmdadd: Route = async (body, signal) => {
    const event = readEvent(body)
    const reply = 'status' in event ? event : await answerEvent(options, event, signal)
    requests.inc({ response_code: reply.status })
    return reply
  }

  const log: Route = (body) => {
    const lines = parseLogLines(body.toString('utf8'))
    if (lines === undefined) options.log.warn({ bytes: body.length }, 'log of a plugin is no JSON array')
    const child = options.log.child({ scope: 'cni-plugin' })
    for (const { level, message, time, labels } of lines ?? []) {
      child[level]({ ...labels, pluginTime: time, pluginMessage: message }, 'plugin said')
    }
    return Promise.resolve(success)
  }

  const events: Listener = {
    path: options.socketPath,
    server: serve(options, stopped.signal, {
      [cniPath]: { handle: cni, maxBytes: maxStdinBytes + maxEnvironmentBytes + 1024 },
      '/cmdadd': { handle: cmdadd, maxBytes: maxEventBytes },
    }),
  }
  const listeners: readonly Listener[] =
    options.logSocketPath === undefined
      ? [events]
      : [
          {
            path: options.logSocketPath,
            server: serve(options, stopped.signal, { '/log': { handle: log, maxBytes: maxLogBytes } }),
          },
          events,
        ]
  return {
    async listen() {
      for (const listener of listeners) await open(listener)
    },
    async close(graceMs = 500) {
      const cut = options.clock.after(graceMs, () => stopped.abort(new Error('the agent stops')))
      await Promise.all(listeners.map((listener) => close(listener, stopped.signal)))
      cut.cancel()
    },
  }
}

/** One event of istio-cni's plugin. Its texts are read by people alone. */
async function answerEvent(options: CniServerOptions, event: AddEvent, signal: AbortSignal): Promise<Reply> {
  const pod: RuntimePod = { namespace: event.podNamespace, name: event.podName, uid: undefined }
  const title = `pod ${pod.namespace}/${pod.name}`
  if (options.excludeNamespaces.has(pod.namespace)) return success
  try {
    const verdict = await awaitVerdict(options, pod, signal)
    if (verdict.kind === 'unknown') return failure(500, `${title} cannot be judged: ${verdict.reason}`)
    if (verdict.kind === 'ineligible') {
      return failure(500, `${title} is unexpectedly not eligible for ambient enrollment: ${verdict.reason}`)
    }
    const netnsPath = event.netns === '' ? undefined : event.netns
    await options.decisions.enroll(verdict.pod, { ips: event.ips, netnsPath, containerId: undefined, signal })
    return success
  } catch (error) {
    options.log.warn(
      { pod: `${pod.namespace}/${pod.name}`, error: formatError(error) },
      'pod that istio-cni announced is not enrolled',
    )
    return failure(500, formatNotEnrolled(title, error))
  }
}

/** The event, or the refusal of a body that is none. */
function readEvent(body: Buffer): AddEvent | Reply {
  try {
    return parseAddEvent(body)
  } catch (error) {
    return failure(400, formatError(error))
  }
}

async function awaitVerdict(options: CniServerOptions, pod: RuntimePod, signal: AbortSignal): Promise<PodVerdict> {
  for (let tries = 0; ; tries++) {
    const verdict = options.decisions.lookUp(pod)
    if (verdict.kind !== 'unknown' || tries === lookUpTries) return verdict
    await sleep(options.clock, lookUpPauseMs, signal)
  }
}

interface Listener {
  readonly path: string
  readonly server: Server
  /** Of the socket at `path` while it is ours. */
  inode?: number
}

/** Listens under a name of its own and then takes the place of a socket at `path`: nobody ever meets half a socket, and closing takes no other's away. */
async function open(listener: Listener): Promise<void> {
  const { path, server } = listener
  const fresh = `${path}.${randomBytes(2).toString('hex')}`
  if (Buffer.byteLength(fresh) > maxSocketPath) {
    const most = maxSocketPath - (fresh.length - path.length)
    throw new Fatal(`${path}: longer than the ${most} bytes that it may have; choose a shorter run folder`)
  }
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o750 })
    const before = await lstat(path).catch(() => undefined) // nothing there is the usual case
    if (before !== undefined && !before.isSocket())
      throw new Error(`there is something at ${path} that is no socket; move it away or choose another run folder`)
    await rm(fresh, { force: true })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ path: fresh }, () => {
        server.removeListener('error', reject)
        resolve()
      })
    })
    await chmod(fresh, 0o666)
    listener.inode = (await stat(fresh)).ino
    await rename(fresh, path)
  } catch (error) {
    throw new Fatal(`cannot listen on ${path}: ${formatError(error)}`, error)
  }
}

async function close({ path, server, inode }: Listener, cut: AbortSignal): Promise<void> {
  if (!server.listening) return
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const onCut = (): void => server.closeAllConnections()
  cut.addEventListener('abort', onCut, { once: true })
  if (cut.aborted) onCut()
  // An agent that came after us may listen there by now.
  const there = await stat(path).catch(() => undefined)
  if (there?.ino === inode) await rm(path, { force: true })
  await closed
  cut.removeEventListener('abort', onCut)
}

type Routes = Readonly<Record<string, { readonly handle: Route; readonly maxBytes: number }>>

function serve({ log }: CniServerOptions, stopped: AbortSignal, routes: Routes): Server {
  const callers = new Callers(process.geteuid?.() ?? 0, log)
  const server = createServer(
    { headersTimeout: 5_000, requestTimeout: 10_000, keepAliveTimeout: 1_000 },
    (request, response) => {
      if (!callers.mayAsk(request.socket)) {
        request.resume()
        response.shouldKeepAlive = false
        send(response, failure(403, callerRefusal))
        return
      }
      answer(request, response, stopped, routes).catch((error: unknown) => {
        if (!response.destroyed)
          log.warn({ path: request.url, error: formatError(error) }, 'plugin request could not be answered')
        response.destroy()
      })
    },
  )
  server.on('connection', (socket) => callers.look(socket))
  return server
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  stopped: AbortSignal,
  routes: Routes,
): Promise<void> {
  const path = (request.url ?? '').split('?', 1)[0] ?? ''
  const route = Object.hasOwn(routes, path) ? routes[path] : undefined
  if (route === undefined) {
    request.resume()
    send(response, failure(404, `no page at ${path}`))
    return
  }
  const gone = new AbortController()
  response.once('close', () => {
    if (!response.writableFinished) gone.abort(new Error('the plugin went away'))
  })
  const body = await readBody(request, route.maxBytes)
  if (body === undefined) {
    send(response, failure(413, `the body is larger than ${route.maxBytes} bytes`))
    return
  }
  try {
    send(response, await route.handle(body, AbortSignal.any([gone.signal, stopped])))
  } catch (error) {
    send(response, failure(error instanceof InvalidInput ? 400 : 500, formatError(error)))
  }
}

/** Undefined when it is longer than `maxBytes`; the rest is read and dropped, so that the client can read our answer. */
async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer | undefined> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes <= maxBytes) parts.push(part)
    else parts.length = 0
  }
  return bytes <= maxBytes ? Buffer.concat(parts) : undefined
}

function failure(status: number, text: string): Reply {
  return { status, body: `${text}\n`, headers: { 'content-type': 'text/plain; charset=utf-8' } }
}

function send(response: ServerResponse, reply: Reply): void {
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body
  response.writeHead(reply.status, { ...reply.headers, 'content-length': body.length })
  response.end(body)
}
