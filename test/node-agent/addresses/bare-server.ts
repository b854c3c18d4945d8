// SPDX-License-Identifier: Apache-2.0
// A control plane of a few lines: gives every stream the same resources or garbage, keeps what is rejected and which tokens are shown.

import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { encodeEntry, encodeWorkloadEntry } from '../../../src/wire/entry.js'
import { ADDRESS_TYPE, type WorkloadMessage } from '../../../src/wire/messages.js'
import { loadProtos } from '../../../src/wire/protos.js'
import { decodeDeltaRequest } from '../../../src/wire/discovery.js'
import type { Resource } from '../../../src/wire/generated/envoy/service/discovery/v3/Resource.js'
import type { Leaf } from '../../support/certificates.js'

export interface BareResource {
  readonly name: string
  readonly workload?: WorkloadMessage
  readonly body?: Uint8Array
}

export interface BareServer {
  readonly port: number
  readonly rejections: readonly string[]
  readonly streams: number
  /** Ends all open streams. */
  cut(): void
  close(): void
}

export interface BareOptions {
  readonly leaf?: Leaf
  readonly onToken?: (token: string) => void
}

export async function startBareServer(
  resources: readonly BareResource[] | 'garbage',
  options: BareOptions = {},
): Promise<BareServer> {
  const { messages } = loadProtos()
  const rejections: string[] = []
  const open = new Set<ServerDuplexStream<Buffer, Buffer>>()
  const counts = { streams: 0 }
  const server = new Server()
  const handle = (call: ServerDuplexStream<Buffer, Buffer>): void => {
    counts.streams++
    open.add(call)
    options.onToken?.(['authorization', 'clusterid'].map((name) => String(call.metadata.get(name)[0])).join(' '))
    call.on('data', (bytes: Buffer) => {
      const ask = decodeDeltaRequest(bytes)
      if (ask.error !== undefined) rejections.push(ask.error.message)
      if (ask.responseNonce !== '' || ask.subscribe.length === 0) return
      call.write(resources === 'garbage' ? Buffer.from([0x0b, 0xff]) : toResponse(resources))
    })
    call.on('error', () => undefined)
    call.on('end', () => call.end())
  }
  const toResponse = (some: readonly BareResource[]): Buffer => {
    const entries = some.map(({ name, workload, body }) =>
      workload === undefined
        ? encodeEntry({ name, version: '1', typeUrl: ADDRESS_TYPE, body: body ?? new Uint8Array() })
        : encodeWorkloadEntry(workload).entry,
    )
    return Buffer.from(
      messages.deltaDiscoveryResponse.encode({
        type_url: ADDRESS_TYPE,
        nonce: 'n1',
        resources: entries.map((entry) => messages.resource.decode(entry) as Resource),
      }),
    )
  }
  const asBytes = (bytes: Buffer): Buffer => bytes
  server.addService(
    {
      delta: {
        path: '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
        requestStream: true,
        responseStream: true,
        requestSerialize: asBytes,
        requestDeserialize: asBytes,
        responseSerialize: asBytes,
        responseDeserialize: asBytes,
      },
    },
    { delta: handle },
  )
  const { leaf } = options
  const credentials =
    leaf === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(null, [{ private_key: Buffer.from(leaf.key), cert_chain: Buffer.from(leaf.cert) }])
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => (error === null ? resolve(bound) : reject(error)))
  })
  return {
    port,
    rejections,
    get streams() {
      return counts.streams
    },
    cut() {
      for (const call of open) call.end()
      open.clear()
    },
    close: () => server.forceShutdown(),
  }
}
