// SPDX-License-Identifier: Apache-2.0
// Recorded answers of the reference's event socket, which its plugin posts to: ours gives the same for the same requests, and asks the same of enrolment.

import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { InvalidInput, Retryable } from '../../../src/base/errors.js'
import type { PodVerdict, RuntimePod } from '../../../src/node-agent/cni-decisions.js'
import { formatOutside, parseEnablementSelectors, toVerdict } from '../../../src/node-agent/eligibility.js'
import { askSocket, openCniRoom, readCounter, type CniRoom } from '../../support/cni-room.js'
import { casesFolder } from '../folder.js'

interface Expected {
  readonly status: number
  readonly contentType: string | null
  readonly body: string
  readonly enrolments: readonly { readonly pod: string; readonly ips?: readonly string[]; readonly netns?: string }[]
}

interface EventCase {
  readonly id: string
  readonly about: string
  readonly request: {
    readonly method: string
    readonly path: string
    readonly contentType?: string
    readonly body: unknown
  }
  readonly enrolmentFails: string | null
  readonly expect: Expected
  readonly deviation?: { readonly expect: Readonly<Record<string, unknown>> }
}

interface EventFile {
  readonly socket: { readonly mode: string; readonly directoryMode: string }
  readonly world: {
    readonly namespaces: readonly { readonly name: string; readonly labels: Readonly<Record<string, string>> }[]
    readonly pods: readonly {
      readonly name: string
      readonly namespace: string
      readonly uid: string
      readonly labels: Readonly<Record<string, string>>
      readonly annotations: Readonly<Record<string, string>>
      readonly hostNetwork?: boolean
    }[]
    readonly excludeNamespaces: readonly string[]
  }
  readonly selectors: unknown
  readonly cases: readonly EventCase[]
}

const node = casesFolder('node')
const path = node === undefined ? undefined : join(node, 'events.json')

describe('recorded events', () => {
  if (path === undefined || !existsSync(path)) {
    console.warn('no node/events.json among the recorded cases: nothing to compare')
    test.skip('node/events.json is missing', () => undefined)
  } else {
    playFile(JSON.parse(readFileSync(path, 'utf8')) as EventFile)
  }
})

function playFile(file: EventFile): void {
  let room: CniRoom
  const statuses = new Map<string, number>()
  beforeAll(async () => {
    room = await openCniRoom({ excludeNamespaces: file.world.excludeNamespaces })
    room.decisions.verdict = (pod) => toPodVerdict(file, pod)
  })
  afterAll(() => room.close())

  test('the socket is there for everybody who may enter its folder', () => {
    const mode = (of: string): string => (statSync(of).mode & 0o777).toString(8).padStart(4, '0')
    expect({ mode: mode(room.socketPath), directoryMode: mode(dirname(room.socketPath)) }).toEqual(file.socket)
  })
  if (file.cases.length === 0) throw new Error('events.json holds no case')
  for (const recorded of file.cases) {
    test(`${recorded.id}: ${recorded.about}`, async () => {
      room.decisions.enrolments.length = 0
      room.decisions.onEnroll = () => fail(recorded.enrolmentFails)
      const { method, body } = recorded.request
      const reply = await askSocket(room.socketPath, {
        method,
        path: recorded.request.path,
        contentType: recorded.request.contentType,
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
      if (recorded.request.path.split('?')[0] === '/cmdadd') {
        const label = `response_code=${reply.status}`
        statuses.set(label, (statuses.get(label) ?? 0) + 1)
      }
      const seen = {
        status: reply.status,
        contentType: reply.contentType ?? null,
        hasText: reply.body !== '',
        enrolments: room.decisions.enrolments.map(({ pod, ips, netnsPath }) => ({
          pod: pod.slice(pod.indexOf('/') + 1),
          ips,
          netns: netnsPath,
        })),
      }
      expect(toAcceptable(recorded)).toContainEqual(
        passesOver(recorded) && seen.enrolments.length === 0 ? 'nothing is enrolled' : seen,
      )
    })
  }
  test('every answer is counted by its code', async () => {
    expect(await readCounter(room.registry, 'istio_cni_plugin_requests_total')).toEqual(Object.fromEntries(statuses))
  })
}

function fail(how: string | null): Promise<void> {
  if (how === null) return Promise.resolve()
  return Promise.reject(
    how === 'nonretryable' ? new InvalidInput('rules failed') : new Retryable('no ztunnel is connected'),
  )
}

function toPodVerdict({ world, selectors }: EventFile, asked: RuntimePod): PodVerdict {
  const namespace = world.namespaces.find(({ name }) => name === asked.namespace)
  const pod = world.pods.find((p) => p.name === asked.name && p.namespace === asked.namespace)
  if (namespace === undefined || pod === undefined) return { kind: 'unknown', reason: 'the agent has not heard of it' }
  const view = { ...namespace, excluded: false, discovered: true }
  const verdict = toVerdict(
    { ...pod, hostNetwork: pod.hostNetwork === true },
    view,
    parseEnablementSelectors(JSON.stringify(selectors)),
  )
  if (!verdict.eligible) return { kind: 'ineligible', reason: formatOutside(verdict.why) }
  return {
    kind: 'eligible',
    pod: { uid: pod.uid, namespace: pod.namespace, name: pod.name, serviceAccount: 'default' },
  }
}

function passesOver({ deviation }: EventCase): boolean {
  return deviation?.expect['mayPassOver'] === true
}

function toAcceptable(recorded: EventCase): readonly unknown[] {
  const { status, contentType, body, enrolments } = recorded.expect
  const answers: unknown[] = [
    {
      status,
      contentType,
      hasText: body !== '',
      enrolments: enrolments.map(({ pod, ips, netns }) => ({ pod, ips: ips ?? [], netns })),
    },
  ]
  const refused = recorded.deviation?.expect['mayRefuse']
  if (typeof refused === 'number') {
    answers.push({ status: refused, contentType: 'text/plain; charset=utf-8', hasText: true, enrolments: [] })
  }
  if (passesOver(recorded)) answers.push('nothing is enrolled')
  return answers
}
