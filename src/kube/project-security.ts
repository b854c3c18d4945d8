// SPDX-License-Identifier: Apache-2.0
// AuthorizationPolicy and PeerAuthentication -> their rows. Rules are kept as written: their meaning is judged elsewhere.

import { internLabels } from './intern.js'
import { isJsonObject, type Part } from './part.js'
import { projectConditions } from './project-conditions.js'
import { projectMeta } from './project-meta.js'
import type { AuthorizationPolicyRecord, Labels, PeerAuthenticationRecord, PolicyTargetRecord } from './records.js'

export function projectAuthorizationPolicy(policy: Part, meta: Part, cluster: string): AuthorizationPolicyRecord {
  const spec = policy.part('spec')
  const targets = selectTargets(spec)
  return Object.freeze({
    ...projectMeta('AuthorizationPolicy', meta, cluster),
    generation: meta.integer('generation'),
    action: spec?.optionalText('action') ?? 'ALLOW',
    targeted: targets.length > 0,
    targets,
    hasSelector: spec?.part('selector') !== undefined,
    selector: spec?.part('selector')?.labels('matchLabels'),
    rules: selectRules(spec),
    conditions: projectConditions('AuthorizationPolicy', policy.part('status')),
  })
}

function selectTargets(spec: Part | undefined): readonly PolicyTargetRecord[] {
  const listed = spec?.parts('targetRefs') ?? []
  const single = spec?.part('targetRef')
  const refs = listed.length > 0 || single === undefined ? listed : [single]
  if (refs.length === 0) return noTargets
  return Object.freeze(
    refs.map((ref) => Object.freeze({ group: ref.shared('group'), kind: ref.shared('kind'), name: ref.text('name') })),
  )
}

const noTargets: readonly PolicyTargetRecord[] = Object.freeze([])

function selectRules(spec: Part | undefined): readonly unknown[] | undefined {
  const rules = spec?.list('rules')
  if (spec === undefined || rules === undefined) return undefined
  return Object.freeze(
    rules.map((rule, i) => {
      if (isDeeper(rule, deepest)) throw spec.refuse(`rules[${i}]`, `nested at most ${deepest} deep`, rule)
      return freezeCopy(rule)
    }),
  )
}

/** Rules that mean something are six deep. */
const deepest = 32

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((item) => isDeeper(item, levels - 1))
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
