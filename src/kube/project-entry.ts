// SPDX-License-Identifier: Apache-2.0
// WorkloadEntry and ServiceEntry -> their rows.

import { freezeTexts, internLabels } from './intern.js'
import { Part } from './part.js'
import { projectConditions } from './project-conditions.js'
import { projectMeta } from './project-meta.js'
import type { ServiceEntryPortRecord, ServiceEntryRecord, WorkloadEntryRecord, WorkloadSpecRecord } from './records.js'

export function projectWorkloadEntry(entry: Part, meta: Part, cluster: string): WorkloadEntryRecord {
  const spec = entry.part('spec') ?? new Part({}, 'spec', entry.subject)
  return Object.freeze({
    ...projectMeta('WorkloadEntry', meta, cluster),
    spec: projectWorkloadSpec(spec),
    conditions: projectConditions('WorkloadEntry', entry.part('status')),
  })
}

function projectWorkloadSpec(spec: Part): WorkloadSpecRecord {
  return Object.freeze({
    address: spec.text('address'),
    ports: projectPortMap(spec.part('ports')),
    labels: spec.labels('labels'),
    network: spec.shared('network'),
    locality: spec.shared('locality'),
    weight: spec.integer('weight'),
    serviceAccount: spec.shared('serviceAccount'),
  })
}

function projectPortMap(ports: Part | undefined): Readonly<Record<string, number>> {
  const entries = Object.keys(ports?.raw ?? {}).map((name) => [name, ports?.port(name) ?? 0] as const)
  return Object.freeze(Object.fromEntries(entries))
}

export function projectServiceEntry(entry: Part, meta: Part, cluster: string): ServiceEntryRecord {
  const spec = entry.part('spec')
  const selector = spec?.part('workloadSelector')
  const status = entry.part('status')
  const statusAddresses = status?.parts('addresses') ?? []
  return Object.freeze({
    ...projectMeta('ServiceEntry', meta, cluster),
    hosts: spec?.texts('hosts') ?? freezeTexts([]),
    addresses: spec?.texts('addresses') ?? freezeTexts([]),
    ports: Object.freeze(spec?.parts('ports').map(projectEntryPort) ?? []),
    resolution: spec?.optionalText('resolution') ?? 'NONE',
    endpoints: Object.freeze(spec?.parts('endpoints').map(projectWorkloadSpec) ?? []),
    workloadSelector: selector === undefined ? undefined : (selector.labels('labels') ?? internLabels([])),
    subjectAltNames: spec?.texts('subjectAltNames') ?? freezeTexts([]),
    statusAddresses: Object.freeze(
      statusAddresses.map((a) => Object.freeze({ value: a.text('value'), host: a.text('host') })),
    ),
    conditions: projectConditions('ServiceEntry', status),
  })
}

function projectEntryPort(port: Part): ServiceEntryPortRecord {
  return Object.freeze({
    number: port.port('number'),
    protocol: port.shared('protocol'),
    name: port.shared('name'),
    targetPort: port.port('targetPort'),
  })
}
