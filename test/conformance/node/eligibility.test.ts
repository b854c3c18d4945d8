// SPDX-License-Identifier: Apache-2.0
// Recorded verdicts on pods and what is done about them on each kind of event. Knows no case by name.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Labels, PodRecord } from '../../../src/kube/records.js'
import { parseEnablementSelectors, toVerdict } from '../../../src/node-agent/eligibility.js'
import { redirectionAnnotation } from '../../../src/node-agent/contracts.js'
import { testWith } from '../../support/optional.js'
import { NodeRoom, makePod } from '../../support/node-room.js'
import { casesFolder } from '../folder.js'

interface RecordedPod {
  readonly name: string
  readonly labels: Labels
  readonly annotations: Labels
  readonly hostNetwork: boolean
  readonly phase: string
  readonly podIP: string | null
  readonly podIPs: readonly string[]
}

interface Call {
  readonly verb: string
  readonly ips?: readonly string[]
  readonly isDelete?: boolean
}

interface EligibilityCase {
  readonly id: string
  readonly about: string
  readonly namespace: { readonly name: string; readonly labels: Labels }
  readonly pod: RecordedPod
  readonly podBefore?: RecordedPod
  readonly selectors?: readonly unknown[]
  readonly excludeNamespaces?: readonly string[]
  readonly expect:
    | { readonly error: string }
    | {
        readonly eligible: boolean
        readonly inFirstSnapshot: boolean
        readonly onAdd: readonly Call[]
        readonly onUpdate: readonly Call[]
        readonly onDelete: readonly Call[]
      }
}

const folder = casesFolder('node')
const file = folder === undefined ? '' : join(folder, 'eligibility.json')

if (!existsSync(file)) {
  testWith('recorded verdicts', 'there is no eligibility.json among the cases')('eligibility', () => undefined)
} else {
  const { cases, defaultSelectors } = JSON.parse(readFileSync(file, 'utf8')) as {
    cases: readonly EligibilityCase[]
    defaultSelectors: readonly unknown[]
  }
  if (cases.length === 0) throw new Error(`${file} holds no case`)
  test.each(cases.map((row) => [`${row.id} ${row.about}`, row] as const))('%s', async (_about, row) => {
    const text = JSON.stringify(row.selectors ?? defaultSelectors)
    if ('error' in row.expect) {
      expect(() => parseEnablementSelectors(text)).toThrow()
      return
    }
    const selectors = parseEnablementSelectors(text)
    const { onAdd, onUpdate, onDelete, eligible, inFirstSnapshot } = row.expect
    const view = { name: row.namespace.name, labels: row.namespace.labels, excluded: false, discovered: true }
    expect(toVerdict(toRow(row, row.pod), view, selectors).eligible).toBe(eligible)
    const story = (): Story => new Story(row, selectors)
    expect(await story().add()).toEqual(onAdd.map(toDeed))
    // ztunnel is never captured by itself, though its pod has not opted out.
    const isZtunnel = row.namespace.name === 'istio-system' && row.pod.labels.app === 'ztunnel'
    expect(await story().update()).toEqual(onUpdate.filter(({ verb }) => !isZtunnel || verb !== 'add').map(toDeed))
    expect(await story().delete()).toEqual(onDelete.map(toDeed))
    // Whom an agent before this one could not finish may be held by ztunnel too.
    const isPending = row.pod.annotations[redirectionAnnotation] === 'pending'
    expect(await story().isInFirstSnapshot()).toBe(
      inFirstSnapshot || (isPending && eligible && row.pod.phase === 'Running'),
    )
  })
}

function toRow({ namespace }: EligibilityCase, pod: RecordedPod): PodRecord {
  return makePod(pod.name, {
    namespace: namespace.name,
    labels: pod.labels,
    annotations: pod.annotations,
    hostNetwork: pod.hostNetwork,
    phase: pod.phase,
    ips: pod.podIPs.length > 0 || pod.podIP === null ? pod.podIPs : [pod.podIP],
  })
}

/** A call as it shows from outside. Removals go by uid here, so their addresses do not show. */
function toDeed({ verb, ips, isDelete }: Call): string {
  if (verb === 'remove') return isDelete === true ? 'let go' : 'take out'
  return `${verb === 'add' ? 'enrol' : 'addresses'} ${[...(ips ?? [])].sort().join(' ')}`
}

class Story {
  readonly #row: EligibilityCase
  readonly #room: NodeRoom

  constructor(row: EligibilityCase, selectors: ReturnType<typeof parseEnablementSelectors>) {
    this.#row = row
    this.#room = new NodeRoom({ selectors, excludedNamespaces: new Set(row.excludeNamespaces ?? []) })
    this.#room.namespace(row.namespace.name, row.namespace.labels)
  }

  async add(): Promise<readonly string[]> {
    const room = this.#room
    await this.#start([])
    room.pod(toRow(this.#row, this.#row.pod), 'A')
    await room.settle()
    // What an agent did before this one is made up for at once, but that is no answer to the event.
    const isMarked = ['enabled', 'pending'].includes(this.#row.pod.annotations[redirectionAnnotation] ?? '')
    const deeds = isMarked ? [] : this.#deeds()
    await room.stop()
    return deeds
  }

  async update(): Promise<readonly string[]> {
    const { pod, podBefore = pod } = this.#row
    const isNew =
      pod.annotations[redirectionAnnotation] !== undefined && podBefore.annotations[redirectionAnnotation] === undefined
    await this.#start([{ ...podBefore, annotations: isNew ? pod.annotations : podBefore.annotations }])
    const room = this.#room
    // The mark is what we have made of it since.
    const { annotations: _, ...fields } = toRow(this.#row, pod)
    room.change(pod.name, { ...fields, ready: false }, fields.namespace)
    await room.settle()
    const deeds = this.#deeds()
    await room.stop()
    return deeds
  }

  async delete(): Promise<readonly string[]> {
    const room = this.#room
    await this.#start([])
    room.pod(toRow(this.#row, this.#row.pod), 'A')
    room.graph.commit()
    room.deletePod(this.#row.pod.name, this.#row.namespace.name)
    await room.settle()
    const deeds = this.#deeds()
    await room.stop()
    return [...new Set(deeds.filter((deed) => deed === 'let go'))]
  }

  async isInFirstSnapshot(): Promise<boolean> {
    const room = this.#room
    room.pod(toRow(this.#row, this.#row.pod), 'A')
    room.graph.commit()
    const controller = new AbortController()
    await room.agent.start(controller.signal)
    const isIn = room.agent.selectZdsPods().length > 0
    controller.abort(new Error('the test is over'))
    await room.settle()
    await room.stop()
    return isIn
  }

  /** Starts with these pods; a marked one has its rules already. */
  async #start(pods: readonly RecordedPod[]): Promise<void> {
    const room = this.#room
    for (const pod of pods) room.pod(toRow(this.#row, pod), 'A')
    await room.start()
    room.ztunnels.connect('z1')
    await room.advance(100)
  }

  #deeds(): readonly string[] {
    const { host, logged, probeSet } = this.#room
    const addresses = [...probeSet.entries.keys()].sort().join(' ')
    const deeds = logged.flatMap(({ message, fields }) => {
      if (message === 'enrolled') return [`enrol ${addresses}`]
      if (message === 'released') return [fields.how === 'left' ? 'take out' : 'let go']
      return []
    })
    const isRewritten = host.journal.includes(`probe set without uid-${this.#row.pod.name}`)
    return deeds.length === 0 && isRewritten ? [`addresses ${addresses}`] : deeds
  }
}
