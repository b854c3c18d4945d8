// SPDX-License-Identifier: Apache-2.0
// The same question as `addressctl whatis`, asked with the real grpcurl through server reflection, as the README says it.

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { addInspectService } from '../../src/debug/inspect-service.js'
import { INSPECT_SERVICE } from '../../src/wire/inspect.js'
import { addReflection } from '../../src/wire/reflection.js'
import { createXdsServer, type XdsServer } from '../../src/xds/server.js'
import { createShop } from './room.js'

const grpcurl = [...(process.env['PATH'] ?? '').split(delimiter), join(homedir(), 'go', 'bin')]
  .map((folder) => join(folder, 'grpcurl'))
  .find((file) => existsSync(file))
if (grpcurl === undefined) {
  console.warn(
    'skipped: no grpcurl on PATH or in ~/go/bin; go install github.com/fullstorydev/grpcurl/cmd/grpcurl@latest',
  )
}
const withGrpcurl = grpcurl === undefined ? describe.skip : describe

interface Asked {
  readonly code: number
  readonly out: string
  readonly err: string
}

withGrpcurl('grpcurl, knowing no files,', () => {
  let server: XdsServer
  let address: string

  beforeAll(async () => {
    const store = createShop()
    server = createXdsServer({ store, clock: systemClock, log: silentLogger, registry: new Registry() })
    const clients = server.clients.bind(server)
    addInspectService(server.inner, { store, clients, clock: systemClock, log: silentLogger })
    addReflection(server.inner, ['envoy.service.discovery.v3.AggregatedDiscoveryService', INSPECT_SERVICE])
    const bound = await server.listen({ host: '127.0.0.1', port: 0 })
    address = `127.0.0.1:${bound.port}`
  })
  afterAll(async () => {
    await server.close()
  })

  function ask(question: object | undefined, ...rest: readonly string[]): Promise<Asked> {
    const data = question === undefined ? [] : ['-d', JSON.stringify(question)]
    return new Promise((resolve) => {
      execFile(grpcurl ?? '', ['-plaintext', ...data, address, ...rest], (error, out, err) =>
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
      )
    })
  }

  test('lists the services', async () => {
    const { code, out } = await ask(undefined, 'list')
    expect(code).toBe(0)
    expect(out.trim().split('\n')).toEqual([INSPECT_SERVICE, 'envoy.service.discovery.v3.AggregatedDiscoveryService'])
  })

  test('asks WhatIs and reads the answer', async () => {
    const { code, out, err } = await ask({ question: '10.96.0.10' }, `${INSPECT_SERVICE}/WhatIs`)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(JSON.parse(out)).toMatchObject({
      question: '10.96.0.10',
      form: 'FORM_IP',
      found: [
        {
          by: 'address /10.96.0.10',
          service: { hostname: 'web.shop.svc.cluster.local', healthyMembers: 1, membersTotal: 2 },
          resource: { name: 'web', addresses: [{ address: '10.96.0.10' }] },
        },
      ],
    })
  })

  test('is told what nobody has, and what is no question', async () => {
    const nobody = await ask({ question: '10.0.0.250' }, `${INSPECT_SERVICE}/WhatIs`)
    expect(nobody.err).toContain('Code: NotFound')
    expect(nobody.err).toContain('nobody has 10.0.0.250')
    const wrong = await ask({ question: '10.0.0.300' }, `${INSPECT_SERVICE}/WhatIs`)
    expect(wrong.err).toContain('Code: InvalidArgument')
    expect([nobody.code === 0, wrong.code === 0]).toEqual([false, false])
  })

  test('lists workloads of a namespace', async () => {
    const { out } = await ask({ namespace: 'shop' }, `${INSPECT_SERVICE}/ListWorkloads`)
    const { workloads } = JSON.parse(out) as { workloads: { name: string }[] }
    expect(workloads.map((row) => row.name)).toEqual(['web-a', 'web-b'])
  })

  test('asks as a proxy does, for one address on demand, and gets it with its closing OK', async () => {
    const request = {
      node: { id: 'ztunnel~127.0.0.1~person.default~default.svc.cluster.local' },
      typeUrl: 'type.googleapis.com/istio.workload.Address',
      resourceNamesSubscribe: ['/10.0.0.1'],
    }
    const { code, out, err } = await ask(
      request,
      'envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
    )
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const response = JSON.parse(out) as { resources: { name: string; resource: object }[]; removedResources: string[] }
    expect(response.removedResources).toEqual(['/10.0.0.1'])
    expect(response.resources).toMatchObject([
      {
        name: 'Kubernetes//Pod/shop/web-a',
        aliases: ['/10.0.0.1'],
        resource: {
          '@type': 'type.googleapis.com/istio.workload.Address',
          workload: { name: 'web-a', addresses: ['CgAAAQ=='] },
        },
      },
    ])
  })
})
