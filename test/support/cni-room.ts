// SPDX-License-Identifier: Apache-2.0
// A CNI server in a folder of its own, with decisions that a test makes up. Remembers what was asked for.

import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { systemClock, type Clock } from '../../src/base/clock.js'
import type { Fields, Logger } from '../../src/base/log.js'
import type {
  CniDecisions,
  CniServer,
  EnrolRequest,
  PodVerdict,
  RuntimePod,
} from '../../src/node-agent/cni-decisions.js'
import { createCniServer } from '../../src/node-agent/cni-server.js'
import type { PodIdentity } from '../../src/node-agent/contracts.js'

export interface Enrolment {
  readonly pod: string
  readonly uid: string
  readonly ips: readonly string[]
  readonly netnsPath: string | undefined
  readonly containerId: string | undefined
}

export interface LogRecord {
  readonly level: string
  readonly fields: Fields
  readonly message: string
}

/** Decisions that a test makes up: by default every pod is of the mesh and every enrolment succeeds at once. */
export class FakeDecisions implements CniDecisions {
  readonly enrolments: Enrolment[] = []
  readonly released: string[] = []
  readonly asked: RuntimePod[] = []
  verdict: (pod: RuntimePod) => PodVerdict = (pod) => ({ kind: 'eligible', pod: toIdentity(pod) })
  onEnroll: (pod: PodIdentity, request: EnrolRequest) => Promise<void> = () => Promise.resolve()
  onRelease: () => Promise<void> = () => Promise.resolve()

  lookUp(pod: RuntimePod): PodVerdict {
    this.asked.push(pod)
    return this.verdict(pod)
  }

  async enroll(pod: PodIdentity, request: EnrolRequest): Promise<void> {
    const { ips, netnsPath, containerId } = request
    this.enrolments.push({ pod: `${pod.namespace}/${pod.name}`, uid: pod.uid, ips, netnsPath, containerId })
    await this.onEnroll(pod, request)
  }

  async releaseNetns(netnsPath: string, containerId: string): Promise<void> {
    this.released.push(`${containerId} ${netnsPath}`)
    await this.onRelease()
  }
}

export function toIdentity(pod: RuntimePod): PodIdentity {
  return { uid: pod.uid ?? `uid-${pod.name}`, namespace: pod.namespace, name: pod.name, serviceAccount: 'default' }
}

export interface CniRoom {
  /** The run folder, where the sockets are. */
  readonly folder: string
  readonly socketPath: string
  readonly decisions: FakeDecisions
  readonly server: CniServer
  readonly registry: Registry
  readonly logs: LogRecord[]
  close(): Promise<void>
}

export interface CniRoomOptions {
  readonly excludeNamespaces?: readonly string[]
  readonly podNamespace?: string
  readonly clock?: Clock
  /** False: nobody listens. */
  readonly listening?: boolean
}

export async function openCniRoom(options: CniRoomOptions = {}): Promise<CniRoom> {
  const top = mkdtempSync(join(tmpdir(), 'cni-'))
  const folder = join(top, 'run')
  const decisions = new FakeDecisions()
  const registry = new Registry()
  const logs: LogRecord[] = []
  const server = createCniServer({
    socketPath: join(folder, 'pluginevent.sock'),
    logSocketPath: join(folder, 'log.sock'),
    decisions,
    excludeNamespaces: new Set(options.excludeNamespaces ?? []),
    podNamespace: options.podNamespace ?? 'istio-system',
    agentPodPrefixes: ['addressd-node-'],
    clock: options.clock ?? systemClock,
    log: collectingLogger(logs),
    registry,
  })
  if (options.listening !== false) await server.listen()
  return {
    folder,
    socketPath: join(folder, 'pluginevent.sock'),
    decisions,
    server,
    registry,
    logs,
    async close() {
      await server.close(100)
      rmSync(top, { recursive: true, force: true })
    },
  }
}

function collectingLogger(records: LogRecord[], bound: Fields = {}): Logger {
  const at = (level: string) => (fields: Fields, message: string) => {
    records.push({ level, fields: { ...bound, ...fields }, message })
  }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => collectingLogger(records, { ...bound, ...fields }),
  }
}

export interface SocketReply {
  readonly status: number
  readonly contentType: string | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

export interface SocketRequest {
  readonly method?: string
  readonly path: string
  readonly contentType?: string | undefined
  readonly body: string | Uint8Array
  readonly signal?: AbortSignal
}

/** One HTTP request over a unix socket. */
export function askSocket(socketPath: string, asked: SocketRequest): Promise<SocketReply> {
  return new Promise((resolve, reject) => {
    const { method = 'POST', path, contentType, body, signal } = asked
    const headers = {
      'content-length': Buffer.byteLength(body),
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
    }
    const client = request(
      { socketPath, method, path, headers, agent: false, ...(signal && { signal }) },
      (response) => {
        const parts: Buffer[] = []
        response.on('data', (part: Buffer) => parts.push(part))
        response.once('error', reject)
        response.once('end', () => {
          resolve({
            status: response.statusCode ?? 0,
            contentType: response.headers['content-type'],
            headers: response.headers,
            body: Buffer.concat(parts).toString(),
          })
        })
      },
    )
    client.once('error', reject)
    client.end(body)
  })
}

/** Values of a counter by its labels, `a=1,b=2`. */
export async function readCounter(registry: Registry, name: string): Promise<Record<string, number>> {
  const metric = await registry.getSingleMetric(name)?.get()
  return Object.fromEntries(
    (metric?.values ?? []).map(({ labels, value }) => [
      Object.entries(labels)
        .map(([key, label]) => `${key}=${String(label)}`)
        .join(','),
      value,
    ]),
  )
}
