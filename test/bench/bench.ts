// SPDX-License-Identifier: Apache-2.0
// The benchmark: starts servers and loads one after another, prints one table, writes docs/BENCH.md. `bench.js [--quick] [PART...]`; with parts named, only
// those, and nothing is written. Opens nothing but loopback. Started by scripts/bench.mjs.

import { writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadProtos } from '../../src/wire/protos.js'
import { selectClient, readAll } from './clients.js'
import { measureEncoding } from './encode-cost.js'
import { selectNodeParts } from './node.js'
import { readRssMb, selectMedian } from './programs.js'
import { startFilledApi } from './real-api.js'
import { formatPage, formatTable, type Row } from './report.js'
import {
  measureAsking,
  measureCommit,
  measureConnected,
  measureReconnect,
  measureSnapshot,
  requireSame,
} from './scenarios.js'
import { measureSecure, measureSigning } from './secure.js'
import {
  root,
  startAddressd,
  startMeshApi,
  startPlain,
  type ApiAccess,
  type MeshApi,
  type Subject,
} from './subjects.js'

const quick = process.argv.includes('--quick')
const beganAt = performance.now()
const rows: Row[] = []
const loads: number[] = []

function say(text: string): void {
  loads.push(loadavg()[0] ?? 0)
  process.stderr.write(`${((performance.now() - beganAt) / 1000).toFixed(0).padStart(4)} s  ${text}\n`)
}

function add({ target, ...measured }: Row): void {
  // What should be reached is said of the full sizes.
  const row: Row = quick || target === undefined ? measured : { ...measured, target }
  rows.push(row)
  say(`${row.figure}: ${row.addressd.toFixed(2)} ${row.unit}, plain ${row.plain?.toFixed(2) ?? '-'}`)
}

/** Each measures the one, then the other, `times` over; gives the middle of each. */
async function alternate(pair: Pair, times: number, measure: (subject: Subject) => Promise<number>): Promise<Both> {
  const mine: number[] = []
  const plain: number[] = []
  for (let i = 0; i < times; i++) {
    mine.push(await measure(pair.addressd))
    plain.push(await measure(pair.plain))
  }
  return { addressd: selectMedian(mine), plain: selectMedian(plain) }
}

interface Pair {
  readonly addressd: Subject
  readonly plain: Subject
}
interface Both {
  readonly addressd: number
  readonly plain: number
}

/** Starts both `times` over and keeps the last two. */
async function startBoth(api: ApiAccess, times: number): Promise<Pair & { wallS: Both; cpuS: Both }> {
  const starts: Record<'addressd' | 'plain', Subject['start'][]> = { addressd: [], plain: [] }
  for (let i = 1; ; i++) {
    const addressd = await startAddressd(api)
    const plain = await startPlain(api)
    starts.addressd.push(addressd.start)
    starts.plain.push(plain.start)
    if (i < times) {
      await Promise.all([addressd.stop(), plain.stop()])
      continue
    }
    const middle = (of: 'wallMs' | 'cpuMs'): Both => ({
      addressd: selectMedian(starts.addressd.map((start) => start[of])) / 1000,
      plain: selectMedian(starts.plain.map((start) => start[of])) / 1000,
    })
    return { addressd, plain, wallS: middle('wallMs'), cpuS: middle('cpuMs') }
  }
}

interface Targets {
  readonly wallS?: number
  readonly cpuS?: number
  readonly rssMb?: number
  readonly snapshotMs?: number
}

function addStart(what: string, started: { wallS: Both; cpuS: Both }, targets: Targets): void {
  const target = (value: number | undefined): { target?: number } => (value === undefined ? {} : { target: value })
  add({ figure: `cold start, ${what}, to ready`, unit: 's', ...started.wallS, ...target(targets.wallS) })
  add({ figure: `cold start, ${what}, CPU`, unit: 's', ...started.cpuS, ...target(targets.cpuS) })
}

const size = (pods: number): string => `${pods / 1000}k pods`

async function measureAtRest(pair: Pair, pods: number, target: number | undefined): Promise<void> {
  await sleep(3000)
  const aim = target === undefined ? {} : { target }
  const both = { addressd: readRssMb(pair.addressd.pid), plain: readRssMb(pair.plain.pid) }
  add({ figure: `resident, ${size(pods)}, no clients`, unit: 'MB', ...both, ...aim })
}

async function measureChange(pair: Pair, api: MeshApi, pods: number): Promise<void> {
  const changes = quick ? 50 : 150
  const addressd = await measureCommit(pair.addressd, api, changes)
  // The yardstick looks at every object for each: fewer are enough to see.
  const plain = await measureCommit(pair.plain, api, pods > 10_000 ? 10 : 30)
  add({ figure: `one pod's change, ${size(pods)}, one client`, unit: 'us', addressd, plain })
}

async function measureSmallMesh(): Promise<void> {
  const clients = quick ? 200 : 1000
  const api = await startMeshApi(1000)
  const started = await startBoth(api, 1)
  const { addressd, plain } = started
  say(`both serve the same ${await requireSame(addressd, plain)} addresses`)
  const [, sample] = [...(await readAll(plain.port))].find(([, { address }]) => 'workload' in address) ?? []
  const { address } = loadProtos().messages
  const bytes = address.encode(sample?.address ?? {})
  const encoding = measureEncoding(bytes, sample?.address ?? {})
  add({ figure: 'encoding one workload', unit: 'ns', addressd: encoding.addressdNs, plain: encoding.plainNs })
  await measureChange(started, api, 1000)
  const load = { clients, changes: quick ? 10 : 20, bursts: quick ? 2 : 4 }
  const mine = await measureConnected(addressd, api, load)
  const its = await measureConnected(plain, api, load)
  const at = `1k pods, ${clients} clients`
  add({ figure: `a small push, CPU a client, ${at}`, unit: 'us', addressd: mine.pushUs, plain: its.pushUs, target: 35 })
  add({ figure: `burst of 10 changes, CPU a client, ${at}`, unit: 'us', addressd: mine.burstUs, plain: its.burstUs })
  const late = { unit: 'ms' } as const
  add({ figure: `change to last client, p50, ${at}`, ...late, addressd: mine.lastP50Ms, plain: its.lastP50Ms })
  add({
    figure: `change to last client, p99, ${at}`,
    ...late,
    addressd: mine.lastP99Ms,
    plain: its.lastP99Ms,
    target: 49,
  })
  await Promise.all([addressd.stop(), plain.stop(), api.stop()])
}

async function measureMesh10k(): Promise<void> {
  const pods = quick ? 2000 : 10_000
  const api = await startMeshApi(pods)
  const started = await startBoth(api, quick ? 1 : 3)
  const { addressd, plain } = started
  addStart(`${size(pods)}, API server in memory`, started, { wallS: 1.45, cpuS: 0.95 })
  await measureAtRest(started, pods, 147)
  await measureChange(started, api, pods)
  for (const clients of quick ? [10] : [10, 50]) {
    const both = await alternate(started, quick ? 1 : 3, (subject) => measureSnapshot(subject, clients))
    const aim = clients === 50 ? { target: 3.1 } : {}
    add({ figure: `snapshot, CPU a client, ${size(pods)}, ${clients} at once`, unit: 'ms', ...both, ...aim })
  }
  for (const connections of [1, 64]) {
    const mine: Awaited<ReturnType<typeof measureAsking>>[] = []
    const its: typeof mine = []
    for (let i = 0; i < (quick ? 2 : 4); i++) {
      mine.push(await measureAsking(addressd, { connections, requests: 4000, pods }))
      its.push(await measureAsking(plain, { connections, requests: 4000, pods }))
    }
    const middle = (all: typeof mine, of: 'cpuUs' | 'p50Us' | 'p99Us'): number =>
      selectMedian(all.map((one) => one[of]))
    for (const [of, name] of [
      ['cpuUs', 'CPU'],
      ['p50Us', 'p50'],
      ['p99Us', 'p99'],
    ] as const) {
      const aim = of === 'cpuUs' ? { target: connections === 1 ? 65 : 37 } : {}
      const figure = `one address asked for, ${name}, ${size(pods)}, ${connections} connection${connections > 1 ? 's' : ''}`
      add({ figure, unit: 'us', addressd: middle(mine, of), plain: middle(its, of), ...aim })
    }
  }
  const clients = quick ? 100 : 1000
  const load = { clients, changes: quick ? 5 : 30, bursts: quick ? 1 : 3 }
  const few = 50
  const its = await measureConnected(plain, api, { ...load, clients: few, changes: 5, bursts: 1 })
  await plain.stop()
  const mine = await measureConnected(addressd, api, load)
  const at = `${size(pods)}, ${clients} clients`
  const note = `plain: ${few} clients`
  add({
    figure: `snapshot, CPU a client, ${at} at once`,
    unit: 'ms',
    addressd: mine.snapshotMs,
    plain: its.snapshotMs,
    target: 3.1,
    note,
  })
  add({
    figure: `a small push, CPU a client, ${at}`,
    unit: 'us',
    addressd: mine.pushUs,
    plain: its.pushUs,
    target: 35,
    note,
  })
  add({
    figure: `burst of 10 changes, CPU a client, ${at}`,
    unit: 'us',
    addressd: mine.burstUs,
    plain: its.burstUs,
    note,
  })
  add({ figure: `change to last client, p50, ${at}`, unit: 'ms', addressd: mine.lastP50Ms, plain: its.lastP50Ms, note })
  add({
    figure: `change to last client, p99, ${at}`,
    unit: 'ms',
    addressd: mine.lastP99Ms,
    plain: its.lastP99Ms,
    target: 49,
    note,
  })
  add({ figure: `resident, ${at}`, unit: 'MB', addressd: mine.rssMb, plain: its.rssMb, target: 150, note })
  await Promise.all([addressd.stop(), api.stop()])
}

async function measureMesh50k(): Promise<void> {
  const pods = 50_000
  const api = await startMeshApi(pods)
  const started = await startBoth(api, 1)
  const { addressd, plain } = started
  addStart(`${size(pods)}, API server in memory`, started, { wallS: 8.8, cpuS: 9.2 })
  await measureAtRest(started, pods, 730)
  await measureChange(started, api, pods)
  const ten = await alternate(started, 1, (subject) => measureSnapshot(subject, 10))
  add({ figure: `snapshot, CPU a client, ${size(pods)}, 10 at once`, unit: 'ms', ...ten })
  const fifty = selectMedian([
    await measureSnapshot(addressd, 50),
    await measureSnapshot(addressd, 50),
    await measureSnapshot(addressd, 50),
  ])
  const note = 'plain: 10 at once'
  add({
    figure: `snapshot, CPU a client, ${size(pods)}, 50 at once`,
    unit: 'ms',
    addressd: fifty,
    plain: ten.plain,
    target: 18,
    note,
  })
  const mine = await measureReconnect(addressd, 5)
  const its = await measureReconnect(plain, 3)
  const request = `a request of ${mine.requestMb.toFixed(1)} MB`
  add({
    figure: `a client comes back holding ${size(pods)}, CPU`,
    unit: 'ms',
    addressd: mine.cpuMs,
    plain: its.cpuMs,
    note: request,
  })
  const plainRss = readRssMb(plain.pid)
  await plain.stop()
  const connected = await measureConnected(addressd, api, { clients: 200, changes: 10, bursts: 1 })
  add({
    figure: `a small push, CPU a client, ${size(pods)}, 200 clients`,
    unit: 'us',
    addressd: connected.pushUs,
    target: 40,
  })
  add({
    figure: `resident, ${size(pods)}, 200 clients`,
    unit: 'MB',
    addressd: connected.rssMb,
    plain: plainRss,
    target: 740,
    note: 'plain: after 10 clients',
  })
  await Promise.all([addressd.stop(), api.stop()])
}

async function measureRealApi(): Promise<void> {
  const pods = 10_000
  const api = await startFilledApi(pods)
  if ('unavailable' in api) {
    say(`SKIPPED: cold start from a real API server: ${api.unavailable}`)
    rows.push({
      figure: `cold start, ${size(pods)}, real API server`,
      unit: 's',
      addressd: Number.NaN,
      note: `skipped: ${api.unavailable}`,
    })
    return
  }
  try {
    const started = await startBoth({ url: api.url, token: api.token, caFile: api.caFile }, 3)
    addStart(`${size(pods)}, real API server`, started, { wallS: 1.45, cpuS: 0.95 })
    await Promise.all([started.addressd.stop(), started.plain.stop()])
  } finally {
    await api.stop()
  }
}

async function measureTls(): Promise<void> {
  const pods = quick ? 1_000 : 10_000
  const api = await startMeshApi(pods)
  const clients = quick ? 20 : 50
  const { clear, tls } = await measureSecure(api, clients, 10)
  await api.stop()
  const beside = (value: number, unit: string): string => `in the clear ${value.toFixed(2)} ${unit}`
  const of = `CPU a client, ${size(pods)}, ${clients} clients`
  add({ figure: `TLS: to connect, ${of}`, unit: 'ms', addressd: tls.connectMs, note: beside(clear.connectMs, 'ms') })
  add({ figure: `TLS: a snapshot, ${of}`, unit: 'ms', addressd: tls.snapshotMs, note: beside(clear.snapshotMs, 'ms') })
  add({ figure: `TLS: a small push, ${of}`, unit: 'us', addressd: tls.pushUs, note: beside(clear.pushUs, 'us') })
  const signMs = await measureSigning(quick ? 200 : 1_000)
  const perSecond = `${(1000 / signMs).toFixed(0)} a second and core, RSA root`
  add({ figure: 'a certificate request, CPU', unit: 'ms', addressd: signMs, note: perSecond })
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  small: measureSmallMesh,
  tls: measureTls,
  '10k': measureMesh10k,
  ...(quick ? {} : { '50k': measureMesh50k, real: measureRealApi }),
  ...selectNodeParts(add, quick),
}
const named = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const isPart = (name: string, part: string): boolean => part === name || part.startsWith(`${name}-`)
const unknown = named.find((name) => !Object.keys(parts).some((part) => isPart(name, part)))
if (unknown !== undefined) {
  console.error(`no part ${unknown}; there are ${Object.keys(parts).join(', ')}`)
  process.exit(2)
}
for (const [part, measure] of Object.entries(parts)) {
  if (named.length === 0 || named.some((name) => isPart(name, part))) await measure()
}

const page = formatPage(rows, {
  cpu: cpus()[0]?.model ?? 'unknown',
  cpus: cpus().length,
  load: `${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}`,
  node: process.versions.node,
  client: selectClient().about,
  seconds: Math.round((performance.now() - beganAt) / 1000),
  mode: quick ? 'quick' : 'full',
})
console.log(formatTable(rows))
if (quick || named.length > 0) say('docs/BENCH.md is left as it is: it holds the figures of a whole run')
else writeFileSync(join(root, 'docs/BENCH.md'), page)
process.exit(0)
