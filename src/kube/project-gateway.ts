// SPDX-License-Identifier: Apache-2.0
// Gateway and GatewayClass -> their rows.

import type { Part } from './part.js'
import { projectMeta } from './project-meta.js'
import type { GatewayClassRecord, GatewayRecord, LabelSelectorRecord, ListenerRecord } from './records.js'
import { resourceTypes } from './resources.js'

export function projectGateway(gateway: Part, meta: Part, cluster: string): GatewayRecord {
  const spec = gateway.part('spec')
  const addresses = gateway.part('status')?.parts('addresses') ?? []
  return Object.freeze({
    ...projectMeta('Gateway', meta, cluster),
    className: spec?.shared('gatewayClassName') ?? '',
    addresses: Object.freeze(addresses.map((a) => Object.freeze({ type: a.shared('type'), value: a.text('value') }))),
    listeners: Object.freeze(spec?.parts('listeners').map(projectListener) ?? []),
  })
}

function projectListener(listener: Part): ListenerRecord {
  const namespaces = listener.part('allowedRoutes')?.part('namespaces')
  const selector = namespaces?.part('selector')
  return Object.freeze({
    name: listener.text('name'),
    port: listener.port('port'),
    protocol: listener.shared('protocol'),
    tlsMode: listener.part('tls')?.shared('mode') ?? '',
    allowedNamespaces:
      namespaces === undefined
        ? undefined
        : Object.freeze({
            from: namespaces.shared('from'),
            selector: selector === undefined ? undefined : projectSelector(selector),
          }),
  })
}

function projectSelector(selector: Part): LabelSelectorRecord {
  const expressions = selector.parts('matchExpressions').map((e) =>
    Object.freeze({
      key: e.text('key'),
      operator: e.text('operator'),
      values: e.texts('values'),
    }),
  )
  return Object.freeze({ matchLabels: selector.labels('matchLabels'), matchExpressions: Object.freeze(expressions) })
}

export function projectGatewayClass(gatewayClass: Part, meta: Part, cluster: string): GatewayClassRecord {
  return Object.freeze({
    cluster,
    name: meta.text('name'),
    controller: gatewayClass.part('spec')?.shared('controllerName') ?? '',
    labels: meta.filledLabels('labels'),
    annotations: meta.selectLabels('annotations', resourceTypes.GatewayClass.annotations),
  })
}
