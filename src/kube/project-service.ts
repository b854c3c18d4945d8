// SPDX-License-Identifier: Apache-2.0
// Service and EndpointSlice -> their rows. Defaults that an API server fills in are not added here.

import { freezeTexts, internString } from './intern.js'
import type { Part } from './part.js'
import { projectConditions } from './project-conditions.js'
import { projectMeta } from './project-meta.js'
import type {
  EndpointRecord,
  EndpointSliceRecord,
  ServicePortRecord,
  ServiceRecord,
  SlicePortRecord,
} from './records.js'

export function projectService(service: Part, meta: Part, cluster: string): ServiceRecord {
  const spec = service.part('spec')
  return Object.freeze({
    ...projectMeta('Service', meta, cluster),
    type: spec?.shared('type') ?? '',
    clusterIps: selectClusterIps(spec),
    ports: Object.freeze(spec?.parts('ports').map(projectServicePort) ?? []),
    selector: spec?.filledLabels('selector'),
    ipFamilies: spec?.texts('ipFamilies') ?? freezeTexts([]),
    internalTrafficPolicy: spec?.shared('internalTrafficPolicy') ?? '',
    trafficDistribution: spec?.shared('trafficDistribution') ?? '',
    publishNotReadyAddresses: spec?.flag('publishNotReadyAddresses') ?? false,
    conditions: projectConditions('Service', service.part('status')),
  })
}

/** `clusterIPs`, or the single `clusterIP` when that list is empty; without the words that mean there is none. */
export function selectClusterIpsOf(list: readonly string[], single: string): readonly string[] {
  return freezeTexts((list.length > 0 ? list : [single]).filter((ip) => ip !== '' && ip !== 'None'))
}

function selectClusterIps(spec: Part | undefined): readonly string[] {
  return selectClusterIpsOf(spec?.texts('clusterIPs') ?? [], spec?.text('clusterIP') ?? '')
}

function projectServicePort(port: Part): ServicePortRecord {
  return Object.freeze({
    name: port.shared('name'),
    port: port.port('port'),
    protocol: port.shared('protocol'),
    appProtocol: port.optionalText('appProtocol'),
    targetPort: projectTargetPort(port),
  })
}

function projectTargetPort(port: Part): number | string {
  const value = port.raw.targetPort
  if (typeof value === 'string') return internString(value)
  if (value === undefined || value === null) return 0
  if (typeof value !== 'number' || !Number.isInteger(value)) throw port.refuse('targetPort', 'a whole number or a name')
  return port.port('targetPort')
}

export function projectEndpointSlice(slice: Part, meta: Part, cluster: string): EndpointSliceRecord {
  return Object.freeze({
    ...projectMeta('EndpointSlice', meta, cluster),
    addressType: slice.shared('addressType'),
    ports: Object.freeze(slice.parts('ports').map(projectSlicePort)),
    endpoints: Object.freeze(slice.parts('endpoints').map(projectEndpoint)),
  })
}

function projectSlicePort(port: Part): SlicePortRecord {
  const name = port.optionalText('name')
  return Object.freeze({
    name: name === undefined ? undefined : internString(name),
    port: port.optionalPort('port'),
    protocol: port.shared('protocol'),
  })
}

function projectEndpoint(endpoint: Part): EndpointRecord {
  const target = endpoint.part('targetRef')
  return Object.freeze({
    addresses: endpoint.texts('addresses'),
    ready: endpoint.part('conditions')?.optionalFlag('ready') ?? true,
    target:
      target === undefined
        ? undefined
        : Object.freeze({
            kind: target.shared('kind'),
            namespace: target.shared('namespace'),
            name: target.text('name'),
            uid: target.text('uid'),
          }),
  })
}
