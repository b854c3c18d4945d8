// SPDX-License-Identifier: Apache-2.0
// Server reflection over a real socket: by a reflection client of grpc-js, and by the real grpcurl where there is one.

import { credentials, loadPackageDefinition, Server, ServerCredentials } from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { execFile, execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { loadProtos } from '../../src/wire/protos.js'
import { addReflection } from '../../src/wire/reflection.js'
import { testWith } from '../support/optional.js'

const DISCOVERY = 'envoy.service.discovery.v3.AggregatedDiscoveryService'
const HEALTH = 'grpc.health.v1.Health'
const server = new Server()
let target = ''

beforeAll(async () => {
  const { services, messages } = loadProtos()
  server.addService(services.health, {
    Check: (_: unknown, reply: (error: null, answer: object) => void) => reply(null, { status: 'SERVING' }),
    Watch: (call: { end(): void }) => call.end(),
  })
  server.addService(services.aggregatedDiscovery, {
    StreamAggregatedResources: (call: { end(): void }) => call.end(),
    DeltaAggregatedResources: (call: any) => {
      const value = messages.address.encode({
        workload: { uid: 'u', services: { 'a/b': { ports: [{ service_port: 80 }] } }, capacity: { value: 3 } },
      })
      call.on('data', (request: any) => {
        const resource = { type_url: 'type.googleapis.com/istio.workload.Address', value }
        call.write({ type_url: request.type_url, nonce: '1', resources: [{ name: 'u', resource }] })
      })
      call.on('end', () => call.end())
    },
  })
  addReflection(server, [DISCOVERY, HEALTH])
  const port = await promisify(server.bindAsync.bind(server))('127.0.0.1:0', ServerCredentials.createInsecure())
  target = `127.0.0.1:${port}`
})

afterAll(() => server.forceShutdown())

/** Asks the reflection service one thing after another. */
async function reflect(requests: readonly object[]): Promise<any[]> {
  const folder = join(dirname(createRequire(import.meta.url).resolve('@grpc/reflection')), '../proto')
  const definition = loadSync('grpc/reflection/v1/reflection.proto', { includeDirs: [folder], keepCase: true })
  const { grpc } = loadPackageDefinition(definition) as any
  const client = new grpc.reflection.v1.ServerReflection(target, credentials.createInsecure())
  const call = client.ServerReflectionInfo()
  for (const request of requests) call.write(request)
  call.end()
  const answers: any[] = []
  for await (const answer of call) answers.push(answer)
  client.close()
  return answers
}

test('the services that the server names are listed', async () => {
  const [answer] = await reflect([{ list_services: '' }])
  const names = answer.list_services_response.service.map((s: any) => s.name)
  expect(names.sort()).toEqual([DISCOVERY, HEALTH])
})

test('every message that a person meets is found, with the files it needs and true map entries', async () => {
  const symbols = [
    'istio.workload.Address',
    'istio.workload.Workload.ServicesEntry',
    'istio.security.Authorization',
    'envoy.service.discovery.v3.DeltaDiscoveryRequest.InitialResourceVersionsEntry',
    'envoy.config.core.v3.Node',
    'envoy.service.status.v3.ClientConfig',
    'google.protobuf.Any',
    'google.protobuf.Struct',
    'google.protobuf.UInt32Value',
    'google.rpc.Status',
    'addressd.inspect.v1.Inspect',
  ]
  const answers = await reflect(symbols.map((symbol) => ({ file_containing_symbol: symbol })))
  const found = answers.map((a) => (a.file_descriptor_response?.file_descriptor_proto.length ?? 0) > 0)
  expect(Object.fromEntries(symbols.map((symbol, i) => [symbol, found[i]]))).toEqual(
    Object.fromEntries(symbols.map((symbol) => [symbol, true])),
  )
})

const grpcurl = findGrpcurl()

function findGrpcurl(): string | undefined {
  for (const path of ['grpcurl', join(homedir(), 'go/bin/grpcurl')]) {
    try {
      execFileSync(path, ['-version'], { stdio: 'pipe' })
      return path
    } catch {
      // Not here; look at the next place.
    }
  }
  return undefined
}

testWith('grpcurl', grpcurl === undefined ? 'there is no grpcurl in PATH or ~/go/bin' : undefined)(
  'grpcurl describes every type and prints an Address inside an Any',
  async () => {
    const run = async (...args: string[]): Promise<string> =>
      (await promisify(execFile)(grpcurl ?? '', ['-plaintext', ...args])).stdout
    for (const symbol of ['istio.workload.Workload', 'istio.security.Match', 'addressd.inspect.v1.WhatIsAnswer']) {
      expect(await run(target, 'describe', symbol)).toContain(`${symbol} is a message`)
    }
    expect(await run(target, 'describe', 'istio.workload.NetworkAddress')).toContain('optional uint32 length = 3;')
    const request = JSON.stringify({
      node: { id: 'x', metadata: { a: [1] } },
      typeUrl: 't',
      initialResourceVersions: { a: 'b' },
    })
    const answer = await run('-d', request, target, `${DISCOVERY}/DeltaAggregatedResources`)
    expect(JSON.parse(answer)).toEqual({
      typeUrl: 't',
      nonce: '1',
      resources: [
        {
          name: 'u',
          resource: {
            '@type': 'type.googleapis.com/istio.workload.Address',
            workload: { uid: 'u', services: { 'a/b': { ports: [{ servicePort: 80 }] } }, capacity: 3 },
          },
        },
      ],
    })
  },
)
