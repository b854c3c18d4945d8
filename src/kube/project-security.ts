// SPDX-License-Identifier: Apache-2.0
// AuthorizationPolicy and PeerAuthentication -> their rows. Rules are kept as written: their meaning is judged elsewhere.

import { internLabels } from './intern.js'
import { isJsonObject, type Part } from './part.js'
import { projectMeta } from './project-meta.js'
import type { AuthorizationPolicyRecord, Labels, PeerAuthenticationRecord } from './records.js'

export function projectAuthorizationPolicy(policy: Part, meta: Part, cluster: string): AuthorizationPolicyRecord {
  const spec = policy.part('spec')
  return Object.freeze({
    ...projectMeta('AuthorizationPolicy', meta, cluster),
    action: spec?.optionalText('action') ?? 'ALLOW',
    targeted: spec?.part('targetRef') !== undefined || (spec?.parts('targetRefs') ?? []).length > 0,
    selector: spec?.part('selector')?.labels('matchLabels'),
    rules: selectRules(spec),
  })
}

function selectRules(spec: Part | undefined): readonly unknown[] | undefined {
  const rules = spec?.list('rules')
  return rules === undefined ? undefined : Object.freeze(rules.map(freezeCopy))
}

function freezeCopy(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze(value.map(freezeCopy))
  if (!isJsonObject(value)) return value
  return Object.freeze(Object.fromEntries(Object.entries(value).map(([key, item]) => [key, freezeCopy(item)])))
}

export function projectPeerAuthentication(peer: Part, meta: Part, cluster: string): PeerAuthenticationRecord {
  const spec = peer.part('spec')
  return Object.freeze({
    ...projectMeta('PeerAuthentication', meta, cluster),
    selector: selectSelector(spec?.part('selector')),
    mode: spec?.part('mtls')?.optionalText('mode') ?? 'UNSET',
    portModes: selectPortModes(spec?.part('portLevelMtls')),
  })
}

function selectSelector(selector: Part | undefined): Labels | undefined {
  return selector === undefined ? undefined : (selector.labels('matchLabels') ?? internLabels([]))
}

function selectPortModes(ports: Part | undefined): Labels | undefined {
  if (ports === undefined) return undefined
  return internLabels(
    Object.keys(ports.raw).flatMap((port) => [port, ports.part(port)?.optionalText('mode') ?? 'UNSET']),
  )
}
