// SPDX-License-Identifier: Apache-2.0
// The whole of addressd inside this process, on a folder of manifests or an API server that is told what to say, over real sockets.
import { credentials, makeGenericClientConstructor, type ClientReadableStream } from '@grpc/grpc-js'
import { afterEach, expect, test } from '@jest/globals'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.js'
import { Fatal } from '../../src/base/errors.js'
import { silentLogger, type Logger } from '../../src/base/log.js'
import { parseSettings } from '../../src/base/settings.js'
import type { KubeApi } from '../../src/kube/api.js'
import { startServer, type RunningServer, type ServerOptions } from '../../src/main/serve.js'
import { settingsTable } from '../../src/main/settings-table.js'
import { loadInspectService } from '../../src/wire/inspect.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'

const pod = `apiVersion: v1
kind: Pod
metadata: { name: web, namespace: shop, uid: 00000000-0000-4000-8000-000000000001 }
spec: { serviceAccountName: web, nodeName: node-1, containers: [{ name: web, image: registry.example/web:1 }] }
status:
  phase: Running
  podIP: 10.0.0.5
  podIPs: [{ ip: 10.0.0.5 }]
  conditions: [{ type: Ready, status: "True" }]
`

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function folder(files: Record<string, string>): string {
  const path = mkdtempSync(join(tmpdir(), 'addressd-serve-'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text)
  cleanups.push(() => rmSync(path, { recursive: true }))
  return path
}

async function start(flags: string[], more: Partial<ServerOptions> = {}): Promise<RunningServer> {
  const free = ['--grpcAddr=127.0.0.1:0', '--httpAddr=127.0.0.1:0', '--monitoringAddr=127.0.0.1:0', '--secureGRPCAddr=']
  const { settings } = parseSettings({
    table: settingsTable,
    argv: [...free, ...flags],
    env: {},
    ownPrefix: 'ADDRESSD_',
  })
  const server = await startServer({ settings, clock: systemClock, log: silentLogger, ...more })
  cleanups.push(() => server.stop())
  return server
}

async function get(server: RunningServer, listener: 'http' | 'monitoring', path: string) {
  const response = await fetch(`http://127.0.0.1:${server.bound[listener]!.port}${path}`)
  return { status: response.status, text: await response.text() }
}

/** An API server that answers nothing before it is released, and then that it has nothing. */
function heldApi(): { api: KubeApi; asked: Promise<void> } {
  let onAsked: () => void = () => undefined
  const asked = new Promise<void>((resolve) => (onAsked = resolve))
  const api: KubeApi = {
    server: 'http://held.example',
    send: (_request, signal) => {
      onAsked()
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
      })
    },
    close: () => undefined,
  }
  return { api, asked }
}

test('it serves a folder: ready, pages, metrics, the address of the pod, and the next one after an edit', async () => {
  const path = folder({ 'web.yaml': pod })
  const server = await start(['--files', path])
  await server.started
  expect(server.ready()).toBe(true)
  expect(await get(server, 'http', '/ready')).toEqual({ status: 200, text: '' })
  expect(server.bound.grpc).toEqual({ host: '127.0.0.1', port: expect.any(Number) })
  const addresses = server.parts.served.address.store.source(ADDRESS_TYPE)!
  expect(addresses.lookup('/10.0.0.5').map((resource) => resource.name)).toEqual(['Kubernetes//Pod/shop/web'])

  const changed = new Promise<string[]>((resolve) => {
    server.parts.served.address.store.onCommit((changes) => {
      resolve((changes.get(ADDRESS_TYPE) ?? []).map((change) => change.name))
    })
  })
  writeFileSync(
    join(path, 'api.yaml'),
    pod
      .replaceAll('web', 'api')
      .replace(/0001 }/, '0002 }')
      .replaceAll('0.0.5', '0.0.6'),
  )
  expect(await changed).toEqual(['Kubernetes//Pod/shop/api'])

  expect((await get(server, 'monitoring', '/version')).text).toMatch(/^\d+\.\d+\.\d+\n$/)
  const metrics = (await get(server, 'monitoring', '/metrics')).text
  for (const line of [
    'pilot_services 0',
    'pilot_push_triggers{type="endpoint"}',
    'istiod_managed_clusters{cluster_type="local"} 1',
    'pilot_xds',
    'pilot_debounce_time_count',
    'istio_build{component="pilot"',
  ]) {
    expect(metrics).toContain(line)
  }
  expect(JSON.parse((await get(server, 'monitoring', '/debug/connections')).text)).toEqual({
    totalClients: 0,
    clients: [],
  })
  expect((await get(server, 'http', '/debug/ambientz')).text).toContain('"uid":"Kubernetes//Pod/shop/api"')
  expect((await get(server, 'http', '/metrics')).status).toBe(404)
})

test('nothing is served before everything was read, and /ready says what is missing', async () => {
  const { api, asked } = heldApi()
  const server = await start([], { api })
  await asked
  const { status, text } = await get(server, 'http', '/ready')
  expect(status).toBe(503)
  expect((JSON.parse(text) as { pending: string[] }).pending).toContain('read Pod')
  expect([server.ready(), server.bound.grpc, server.work().unread]).toEqual([false, undefined, 12])
  await server.stop()
  await expect(server.started).rejects.toThrow('stopped before it was ready')
  await expect(server.ended).resolves.toBeUndefined()
})

test('a drain turns /ready off and leaves the pages open until the stop', async () => {
  const server = await start(['--files', folder({ 'web.yaml': pod })])
  await server.started
  await server.drain()
  expect(await get(server, 'http', '/ready')).toEqual({ status: 503, text: '{"pending":["stopping"]}' })
  const { port } = server.bound.http!
  await server.stop()
  await server.stop()
  await expect(fetch(`http://127.0.0.1:${port}/ready`)).rejects.toThrow()
})

test('a drain does not wait for people who watch', async () => {
  const warned: string[] = []
  const log: Logger = { ...silentLogger, warn: (_fields, message) => void warned.push(message), child: () => log }
  const server = await start(['--files', folder({ 'web.yaml': pod })], { log })
  await server.started
  const Client = makeGenericClientConstructor(loadInspectService(), 'Inspect')
  const client = new Client(`127.0.0.1:${server.bound.grpc!.port}`, credentials.createInsecure())
  cleanups.push(() => client.close())
  const call = client['WhatIs']!({ question: '10.0.0.5', watch: true }) as ClientReadableStream<unknown>
  const ended = new Promise((resolve) => call.on('error', resolve))
  await new Promise((resolve) => call.once('data', resolve))
  await server.drain()
  await ended
  expect(warned).toEqual([])
})

test('a listener with an empty address is off', async () => {
  const path = folder({ 'web.yaml': pod })
  const server = await start(['--files', path, '--httpAddr=', '--monitoringAddr=', '--grpcAddr='])
  await server.started
  expect(server.bound).toEqual({ grpc: undefined, http: undefined, monitoring: undefined })
})

test('/debug is on the monitoring address alone when it shall not be on the other', async () => {
  const { settings } = parseSettings({ table: settingsTable, argv: [], env: {}, ownPrefix: 'ADDRESSD_' })
  const local = { host: '127.0.0.1', port: 0 }
  const server = await startServer({
    settings: {
      ...settings,
      files: folder({ 'web.yaml': pod }),
      grpcAddr: undefined,
      httpAddr: local,
      monitoringAddr: local,
      debugOnHttp: false,
    },
    clock: systemClock,
    log: silentLogger,
  })
  cleanups.push(() => server.stop())
  expect((await get(server, 'http', '/debug/list')).status).toBe(404)
  expect((await get(server, 'monitoring', '/debug/list')).status).toBe(200)
})

test('an address in use is Fatal and names the flag, for pages at once and for gRPC after the first commit', async () => {
  const blocker = createServer()
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => new Promise((resolve) => blocker.close(resolve)))
  const { port } = blocker.address() as { port: number }
  const path = folder({ 'web.yaml': pod })
  await expect(start(['--files', path, `--monitoringAddr=127.0.0.1:${port}`])).rejects.toThrow(
    `--monitoringAddr=127.0.0.1:${port}: this address is in use`,
  )
  const server = await start(['--files', path, `--grpcAddr=127.0.0.1:${port}`])
  await expect(server.started).rejects.toThrow(Fatal)
  await expect(server.ended).rejects.toThrow(`--grpcAddr=127.0.0.1:${port}: this address is in use`)
})

test('a folder that does not exist stops the start', async () => {
  const server = await start(['--files', '/does/not/exist'])
  await expect(server.ended).rejects.toThrow('/does/not/exist')
})

test('its owner stops it by a signal', async () => {
  const owner = new AbortController()
  const server = await start(['--files', folder({ 'web.yaml': pod })], { signal: owner.signal })
  await server.started
  owner.abort()
  await server.ended
  expect(server.ready()).toBe(false)
})
