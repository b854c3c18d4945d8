// SPDX-License-Identifier: Apache-2.0
// A program: an API server in memory that holds the pods of one node, as it is told on stdin. Prints its URL first; then answers each order when the agent has
// written down that it is done, with the time from the first change to the last answer.

import { FakeApiServer } from '../support/fake-apiserver.js'
import { namespace, type MachinePod } from './node-machine.js'
import { serveQuestions } from './node-cost.js'

/** `running`: pods with an address, outside the mesh. `starting`: pods without. Then either all of them join or leave the mesh, or one after the other joins. */
export interface ApiOrder {
  readonly running?: readonly MachinePod[]
  readonly starting?: readonly MachinePod[]
  readonly mesh?: 'all' | 'none' | { readonly oneByOne: readonly string[] }
}

export interface ApiAnswer {
  readonly wallUs: number
}

const mode = 'istio.io/dataplane-mode'
const redirection = 'ambient.istio.io/redirection'
const api = new FakeApiServer({ protobuf: true })
const names = new Set<string>()
const labelled = new Set<string>()
let look: () => void = () => undefined
const show = api.store.onChange
api.store.onChange = (change) => {
  show(change)
  look()
}

function toPod({ name, uid, ip }: MachinePod, isStarting: boolean): Record<string, unknown> {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, uid, labels: { app: name } },
    spec: {
      nodeName: 'node-1',
      serviceAccountName: 'default',
      containers: [{ name: 'app', image: 'app:1', env: [{ name: 'A', value: 'b' }], ports: [{ containerPort: 8080 }] }],
    },
    status: isStarting
      ? { phase: 'Pending', conditions: [] }
      : { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions: [{ type: 'Ready', status: 'True' }] },
  }
}

function putNamespace(labels: Record<string, string>): void {
  api.upsert({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } })
}

function label(name: string, value: string | null): void {
  api.patch({ kind: 'Pod', namespace, name, merge: { metadata: { labels: { [mode]: value } } } })
}

/** The agent has written that these pods are enrolled, or taken that back. */
function until(pods: Iterable<string>, isEnrolled: boolean): Promise<void> {
  const waiting = new Set(pods)
  return new Promise((resolve) => {
    look = () => {
      for (const name of waiting) {
        const value: unknown = api.get('Pod', namespace, name)?.['metadata'].annotations?.[redirection]
        if ((value === 'enabled') === isEnrolled) waiting.delete(name)
        else return
      }
      look = () => undefined
      resolve()
    }
    look()
  })
}

await api.start()
putNamespace({})
process.stdout.write(`${JSON.stringify({ url: api.url })}\n`)

await serveQuestions(async (question) => {
  const { running = [], starting = [], mesh } = question as ApiOrder
  for (const { name } of running) names.add(name)
  api.upsert(...running.map((pod) => toPod(pod, false)), ...starting.map((pod) => toPod(pod, true)))
  const from = performance.now()
  if (mesh === 'all' || mesh === 'none') {
    putNamespace(mesh === 'all' ? { [mode]: 'ambient' } : {})
    for (const name of labelled) label(name, null)
    labelled.clear()
    await until(names, mesh === 'all')
  } else if (mesh !== undefined) {
    for (const name of mesh.oneByOne) {
      labelled.add(name)
      label(name, 'ambient')
      await until([name], true)
    }
  }
  const answer: ApiAnswer = { wallUs: (performance.now() - from) * 1000 }
  return { ...answer }
})
