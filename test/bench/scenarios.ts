// SPDX-License-Identifier: Apache-2.0
// One function a figure: puts a subject under a load and gives what it cost. Every CPU figure is the subject's own, user and system.

import { setTimeout as sleep } from 'node:timers/promises'
import { askMany, Drain, exchange, readAll } from './clients.js'
import { readCpuMs, readRssMb, selectQuantile } from './programs.js'
import { encodeRequest } from './requests.js'
import type { MeshApi, Subject } from './subjects.js'

/** Milliseconds of CPU that the subject spends until `task` is done, and a moment longer for what it does afterwards. */
async function costOf(subject: Subject, task: () => Promise<void>, restMs = 300): Promise<number> {
  const before = readCpuMs(subject.pid)
  await task()
  await sleep(restMs)
  return readCpuMs(subject.pid) - before
}

/** Microseconds of CPU for one pod's change, from its event to the one client that listens: each change is waited for, so that none is merged with the next. */
export async function measureCommit(subject: Subject, api: MeshApi, changes: number): Promise<number> {
  const drain = new Drain(subject.port, 1)
  await drain.message(0)
  await sleep(300)
  const change = async (): Promise<void> => {
    const k = drain.received
    await api.change(1)
    await drain.message(k)
  }
  // Code that is not compiled yet is another figure's.
  for (let i = 0; i < 10; i++) await change()
  const cost = await costOf(subject, async () => {
    for (let i = 0; i < changes; i++) await change()
  })
  await drain.stop()
  return (cost * 1000) / changes
}

/** Milliseconds of CPU a client, when so many come at once for everything. */
export async function measureSnapshot(subject: Subject, clients: number): Promise<number> {
  let drain: Drain | undefined
  const cost = await costOf(subject, async () => {
    drain = new Drain(subject.port, clients)
    await drain.message(0)
  })
  await drain?.stop()
  await sleep(200)
  return cost / clients
}

export interface ConnectedFigures {
  readonly snapshotMs: number
  readonly rssMb: number
  readonly pushUs: number
  readonly burstUs: number
  /** From the API server's answer until the last client had it. */
  readonly lastP50Ms: number
  readonly lastP99Ms: number
}

/** Clients that stay: what each push costs and how late it is. */
export async function measureConnected(
  subject: Subject,
  api: MeshApi,
  load: { clients: number; changes: number; bursts: number },
): Promise<ConnectedFigures> {
  const { clients, changes, bursts } = load
  const before = readCpuMs(subject.pid)
  const drain = new Drain(subject.port, clients)
  await drain.message(0)
  await sleep(500)
  const snapshotMs = (readCpuMs(subject.pid) - before) / clients
  const late: number[] = []
  const push = async (): Promise<void> => {
    const k = drain.received
    const answeredAt = await api.change(1)
    late.push(((await drain.message(k)).last - answeredAt) / 1e6)
    await sleep(60)
  }
  // The first few pay for code that is not compiled yet.
  for (let i = 0; i < 5; i++) await push()
  late.length = 0
  const pushing = await costOf(subject, async () => {
    for (let i = 0; i < changes; i++) await push()
  })
  const bursting = await costOf(subject, async () => {
    for (let i = 0; i < bursts; i++) {
      const k = drain.received
      for (let j = 0; j < 10; j++) await api.change(1)
      await drain.message(k)
      await sleep(250)
    }
  })
  await sleep(2500)
  const rssMb = readRssMb(subject.pid)
  await drain.stop()
  await sleep(500)
  return {
    snapshotMs,
    rssMb,
    pushUs: (pushing * 1000) / clients / changes,
    burstUs: (bursting * 1000) / clients / bursts,
    lastP50Ms: selectQuantile(late, 0.5),
    lastP99Ms: selectQuantile(late, 0.99),
  }
}

/** Microseconds of CPU a request for one address, and how long its asker waits. */
export async function measureAsking(
  subject: Subject,
  how: { connections: number; requests: number; pods: number },
): Promise<{ cpuUs: number; p50Us: number; p99Us: number }> {
  let figures = { p50Us: Number.NaN, p99Us: Number.NaN }
  const cost = await costOf(subject, async () => {
    figures = await askMany(subject.port, how)
  })
  return { cpuUs: (cost * 1000) / how.requests, p50Us: figures.p50Us, p99Us: figures.p99Us }
}

/** Milliseconds of CPU for a client that comes back with all versions, and the size of its request in MB. */
export async function measureReconnect(subject: Subject, times: number): Promise<{ cpuMs: number; requestMb: number }> {
  const versions: Record<string, string> = {}
  for (const [name, { version }] of await readAll(subject.port)) versions[name] = version
  const request = encodeRequest({ node: 0, versions })
  await sleep(300)
  const cost = await costOf(subject, async () => {
    for (let i = 0; i < times; i++) await exchange(subject.port, request)
  })
  return { cpuMs: cost / times, requestMb: request.length / 1e6 }
}

/** Throws unless both servers give the same addresses: figures of different work cannot be compared. */
export async function requireSame(one: Subject, other: Subject): Promise<number> {
  const [a, b] = await Promise.all([readAll(one.port), readAll(other.port)])
  if (a.size !== b.size) throw new Error(`${one.name} serves ${a.size} addresses, ${other.name} ${b.size}`)
  for (const [name, { address }] of a) {
    const [mine, its] = [JSON.stringify(address), JSON.stringify(b.get(name)?.address)]
    if (mine !== its) throw new Error(`${name} differs: ${mine} and ${its}`)
  }
  return a.size
}
