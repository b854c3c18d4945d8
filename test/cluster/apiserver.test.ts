// SPDX-License-Identifier: Apache-2.0
// The test API server itself: does it serve what the tests of this folder build upon? CRDS_DIR names a folder of definitions to install.

import { afterAll, describe, expect } from '@jest/globals'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import { apiServerStartTimeoutMs, startApiServer } from '../support/apiserver.js'
import { readDefinitions } from '../support/crds.js'
import { testWith } from '../support/optional.js'

const crdsFolder = process.env['CRDS_DIR']
const server = await startApiServer({ crdsFolder })
const maybe = testWith('api-server', 'unavailable' in server ? server.unavailable : undefined)
const maybeWithCrds =
  'unavailable' in server ? maybe : testWith('crds', crdsFolder === undefined ? 'CRDS_DIR is not set' : undefined)

const api = () => {
  if ('unavailable' in server) throw new Error(server.unavailable)
  return server
}

const toPod = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'default', labels: { app: name } },
  spec: { containers: [{ name: 'main', image: 'example.invalid/main' }] },
})
const pods = '/api/v1/namespaces/default/pods'
const running = {
  status: { phase: 'Running', podIP: '10.0.0.5', podIPs: [{ ip: '10.0.0.5' }, { ip: 'fd00::5' }], hostIP: '192.0.2.1' },
}

async function createPod(name: string): Promise<any> {
  const answer = await api().request('POST', pods, toPod(name))
  expect(answer.status).toBe(201)
  return answer.json()
}

/** The events of a watch up to one that begins with `last`, as "TYPE name". */
async function readEvents(watch: IncomingMessage, last: string): Promise<string[]> {
  const events: string[] = []
  for await (const line of createInterface({ input: watch })) {
    const { type, object } = JSON.parse(line)
    events.push(type === 'ERROR' ? `ERROR ${object.code} ${object.reason}` : `${type} ${object.metadata.name}`)
    if (events.at(-1)?.startsWith(last) === true) break
  }
  watch.destroy()
  return events
}

afterAll(async () => {
  if (!('unavailable' in server)) await server.stop()
}, apiServerStartTimeoutMs)

describe('the test API server', () => {
  maybe('is of the release whose types the code reads', async () => {
    expect((await api().request('GET', '/version')).json()).toMatchObject({ gitVersion: 'v1.35.4', minor: '35' })
  })

  maybe('takes a pod, and its status by the status subresource', async () => {
    const pod = await createPod('first')
    const answer = await api().request('PATCH', `${pods}/first/status`, running, {
      'content-type': 'application/merge-patch+json',
    })
    expect([answer.status, answer.json().status]).toMatchObject([200, running.status])
    expect(answer.json().metadata.uid).toBe(pod.metadata.uid)
  })

  maybe('lists pods in JSON and in protobuf', async () => {
    const json = await api().request('GET', pods)
    expect(json.json().items.map((pod: any) => pod.metadata.name)).toContain('first')
    const protobuf = await api().request('GET', pods, undefined, { accept: 'application/vnd.kubernetes.protobuf' })
    expect(protobuf.headers['content-type']).toBe('application/vnd.kubernetes.protobuf')
    expect(protobuf.body.subarray(0, 4)).toEqual(Buffer.from('k8s\0'))
    expect(protobuf.body.includes('10.0.0.5')).toBe(true)
  })

  maybe('gives a dual-stack service an address of each family', async () => {
    const answer = await api().request('POST', '/api/v1/namespaces/default/services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'both' },
      spec: { ipFamilyPolicy: 'RequireDualStack', ports: [{ port: 80 }] },
    })
    expect([answer.status, answer.json().spec.clusterIPs]).toEqual([
      201,
      [expect.stringMatching(/^10\.96\./), expect.stringMatching(/^fd00:10:96::/)],
    ])
  })

  maybe('streams what happens to a watch, which its death ends', async () => {
    const version = (await api().request('GET', pods)).json().metadata.resourceVersion
    const watch = await api().open(`${pods}?watch=1&allowWatchBookmarks=true&resourceVersion=${version}`)
    await createPod('second')
    await api().request('DELETE', `${pods}/second?gracePeriodSeconds=0`)
    expect(await readEvents(watch, 'DELETED')).toEqual(['ADDED second', 'MODIFIED second', 'DELETED second'])

    const other = await api().open(`${pods}?watch=1&resourceVersion=${version}`)
    other.resume()
    const ended = once(other, 'close').catch((error: unknown) => error)
    other.once('error', () => undefined)
    await api().kill()
    await ended
    await expect(api().request('GET', '/readyz')).rejects.toThrow()
    await api().restart()
    expect((await api().request('GET', pods)).json().items).toHaveLength(1)
  })

  maybe('says 410 to an old version after compaction', async () => {
    const version = (await api().request('GET', pods)).json().metadata.resourceVersion
    await createPod('third')
    await api().restart({ compact: true })
    const watch = await api().open(`${pods}?watch=1&resourceVersion=${version}`)
    const events = watch.statusCode === 200 ? await readEvents(watch, 'ERROR') : [`status ${watch.statusCode}`]
    expect([['ERROR 410 Expired'], ['status 410']]).toContainEqual(events)
    watch.destroy()
  })

  maybe('refuses a continue token whose version was compacted', async () => {
    await createPod('fourth')
    const page = (await api().request('GET', `${pods}?limit=1`)).json()
    expect(page.metadata.continue).toEqual(expect.any(String))
    // Compaction alone is not enough: the server keeps snapshots of what it has watched since its start.
    await api().restart({ compact: true })
    const next = await api().request('GET', `${pods}?limit=1&continue=${encodeURIComponent(page.metadata.continue)}`)
    expect([next.status, next.json().reason]).toEqual([410, 'Expired'])
  })

  maybeWithCrds('serves every definition of the folder', async () => {
    for (const { spec } of readDefinitions(crdsFolder!)) {
      const version = spec.versions.find((each) => each.served)!
      const answer = await api().request('GET', `/apis/${spec.group}/${version.name}/${spec.names.plural}`)
      expect([spec.names.plural, answer.status, answer.json().items]).toEqual([spec.names.plural, 200, []])
    }
  })
})
