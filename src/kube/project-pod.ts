// SPDX-License-Identifier: Apache-2.0
// Pod -> PodRecord. The row that exists fifty thousand times: everything that repeats is one copy.

import { freezeTexts, internOwner, internPorts } from './intern.js'
import type { Part } from './part.js'
import { projectMeta } from './project-meta.js'
import type { NamedPort, PodRecord } from './records.js'

export function projectPod(pod: Part, meta: Part, cluster: string): PodRecord {
  const spec = pod.part('spec')
  const status = pod.part('status')
  const { namespace, name, uid, labels, annotations, created } = projectMeta('Pod', meta, cluster)
  return Object.freeze({
    cluster,
    namespace,
    name,
    uid,
    labels,
    annotations,
    created,
    deleting: meta.has('deletionTimestamp'),
    generated: meta.text('generateName') !== '',
    owner: selectOwner(meta),
    node: spec?.shared('nodeName') ?? '',
    serviceAccount: spec?.shared('serviceAccountName') ?? '',
    hostNetwork: spec?.flag('hostNetwork') ?? false,
    ports: selectPorts(spec),
    phase: status?.shared('phase') ?? '',
    ips: selectIps(status),
    ready: status?.parts('conditions').some((c) => c.text('type') === 'Ready' && c.text('status') === 'True') ?? false,
  })
}

function selectOwner(meta: Part): PodRecord['owner'] {
  const owner = meta.parts('ownerReferences').find((o) => o.flag('controller'))
  return owner === undefined ? undefined : internOwner(owner.text('kind'), owner.text('name'))
}

function selectPorts(spec: Part | undefined): readonly NamedPort[] {
  const out: NamedPort[] = []
  const add = (container: Part): void => {
    for (const port of container.parts('ports')) {
      const name = port.text('name')
      const protocol = port.text('protocol')
      if (name !== '' && (protocol === '' || protocol === 'TCP')) out.push({ name, port: port.port('containerPort') })
    }
  }
  for (const container of spec?.parts('containers') ?? []) add(container)
  for (const container of spec?.parts('initContainers') ?? []) {
    if (container.text('restartPolicy') === 'Always') add(container)
  }
  return internPorts(out)
}

function selectIps(status: Part | undefined): readonly string[] {
  const listed = status?.parts('podIPs').map((p) => p.text('ip')) ?? []
  if (listed.length > 0) return freezeTexts(listed)
  const single = status?.text('podIP') ?? ''
  return freezeTexts(single === '' ? [] : [single])
}
