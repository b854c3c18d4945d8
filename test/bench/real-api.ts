// SPDX-License-Identifier: Apache-2.0
// A real API server that holds the bench's mesh. The objects are put into etcd as the API server itself would store them: a minute of requests
// becomes seconds, and what is listed afterwards is the same.

import { startApiServer, type ApiServer } from '../support/apiserver.js'
import { createMesh, meshKinds, meshTypes, type Json, type MeshKind } from './mesh.js'
import { encodeEnvelope, encodeObject } from './protobuf.js'

const folders: Record<MeshKind, string> = {
  Namespace: 'namespaces',
  Node: 'minions',
  Service: 'services/specs',
  Pod: 'pods',
  EndpointSlice: 'endpointslices',
}
const perTransaction = 100

/** Starts one and fills it; `unavailable` says what the machine lacks. */
export async function startFilledApi(pods: number): Promise<ApiServer | { unavailable: string }> {
  const api = await startApiServer()
  if ('unavailable' in api) return api
  try {
    await fill(api, pods)
  } catch (error) {
    await api.stop()
    throw error
  }
  return api
}

async function fill(api: ApiServer, pods: number): Promise<void> {
  const mesh = createMesh(pods)
  let puts: object[] = []
  for (const kind of meshKinds) {
    for (let i = 0; i < mesh.count(kind); i++) {
      puts.push({ requestPut: toPut(kind, mesh.make(kind, i)) })
      if (puts.length < perTransaction) continue
      await commit(api, puts)
      puts = []
    }
  }
  if (puts.length > 0) await commit(api, puts)
  const deadline = performance.now() + 60_000
  while ((await api.request('GET', '/api/v1/pods?limit=1')).json().metadata.remainingItemCount !== pods - 1) {
    if (performance.now() > deadline) throw new Error('the API server does not show the pods')
  }
}

function toPut(kind: MeshKind, object: Json): object {
  const { namespace, name } = object.metadata
  const key = ['/registry', folders[kind], ...(namespace === undefined ? [] : [namespace]), name].join('/')
  const value = encodeEnvelope(meshTypes[kind].apiVersion, kind, encodeObject(kind, object))
  return { key: Buffer.from(key).toString('base64'), value: value.toString('base64') }
}

async function commit(api: ApiServer, success: readonly object[]): Promise<void> {
  const answer = await fetch(`${api.etcdUrl}/v3/kv/txn`, { method: 'POST', body: JSON.stringify({ success }) })
  if (!answer.ok) throw new Error(`etcd: ${answer.status} ${await answer.text()}`)
}
