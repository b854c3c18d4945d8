// SPDX-License-Identifier: Apache-2.0
// What PeerAuthentications demand of a workload: which of them count, and what a port-level one comes to. Pure, and the only place that knows:
// whoever lists policies and whoever converts them must never disagree.

import type { Labels, PeerAuthenticationRecord } from '../kube/records.js'
import {
  AuthorizationAction,
  AuthorizationScope,
  type AuthorizationMessage,
  type Clause,
  type Group,
} from '../wire/authorization-encoder.js'
import { isEmptyLabels } from './labels.js'
import { isSubset } from '../kube/selectors.js'

export type PeerPolicy = Pick<
  PeerAuthenticationRecord,
  'namespace' | 'name' | 'created' | 'selector' | 'mode' | 'portModes'
>

/** The oldest policy of each level. */
export interface PeerWinners {
  readonly mesh: PeerPolicy | undefined
  readonly namespace: PeerPolicy | undefined
  readonly workload: PeerPolicy | undefined
}

/**
 * What the port-level modes of one policy come to.
 * `exempt`: everything needs a peer identity but these ports. `strict`: only these ports do. Ports ascend.
 */
export type PortRules =
  | { readonly kind: 'exempt'; readonly ports: readonly number[] }
  | { readonly kind: 'strict'; readonly ports: readonly number[] }

/** The winners for a workload; `policies` may hold any policies of its namespace and of the root namespace. */
export function selectPeerWinners(
  policies: readonly PeerPolicy[],
  workload: { readonly namespace: string; readonly labels: Labels | undefined },
  rootNamespace: string,
): PeerWinners {
  let mesh: PeerPolicy | undefined
  let namespace: PeerPolicy | undefined
  let ofWorkload: PeerPolicy | undefined
  for (const policy of policies) {
    if (policy.namespace === rootNamespace) {
      // Seen from another namespace an empty selector is a selector, and in the root namespace those select nobody.
      const counts =
        workload.namespace === rootNamespace ? isEmptyLabels(policy.selector) : policy.selector === undefined
      if (counts) mesh = selectOlder(mesh, policy)
    } else if (policy.namespace !== workload.namespace) continue
    else if (policy.selector === undefined || isEmptyLabels(policy.selector)) namespace = selectOlder(namespace, policy)
    else if (isSubset(policy.selector, workload.labels)) ofWorkload = selectOlder(ofWorkload, policy)
  }
  return { mesh, namespace, workload: ofWorkload }
}

function selectOlder(a: PeerPolicy | undefined, b: PeerPolicy): PeerPolicy {
  if (a === undefined) return b
  if (a.created !== b.created) return a.created < b.created ? a : b
  return a.name < b.name ? a : b
}

/** Do mesh and namespace, together, demand a peer identity? */
export function isParentStrict({ mesh, namespace }: Pick<PeerWinners, 'mesh' | 'namespace'>): boolean {
  const mode = namespace === undefined || namespace.mode === 'UNSET' ? mesh?.mode : namespace.mode
  return mode === 'STRICT'
}

/** Does the policy, on ports that it says nothing of? DISABLE is PERMISSIVE throughout. */
export function isPolicyStrict(policy: PeerPolicy | undefined, parentStrict: boolean): boolean {
  return policy === undefined || policy.mode === 'UNSET' ? parentStrict : policy.mode === 'STRICT'
}

/** Undefined when its ports change nothing: then no policy is made of it, and nobody lists one. */
export function toPortRules(policy: PeerPolicy, parentStrict: boolean): PortRules | undefined {
  const kind = isPolicyStrict(policy, parentStrict) ? 'exempt' : 'strict'
  const wanted = kind === 'strict' ? ['STRICT'] : ['PERMISSIVE', 'DISABLE']
  const ports = Object.entries(policy.portModes ?? {})
    .filter(([, mode]) => wanted.includes(mode))
    .map(([port]) => Number(port))
    .sort((a, b) => a - b)
  return ports.length === 0 ? undefined : { kind, ports }
}

const convertedPrefix = 'converted_peer_authentication_'
const staticStrictName = 'istio_converted_static_strict'

/** Name of the policy that a port-level one is converted to. */
export function formatConvertedName({ namespace, name }: Pick<PeerPolicy, 'namespace' | 'name'>): string {
  return `${namespace}/${convertedPrefix}${name}`
}

/** Name of the PeerAuthentication behind a converted policy's name (without namespace); undefined for any other name. */
export function parseConvertedName(name: string): string | undefined {
  return name.startsWith(convertedPrefix) ? name.slice(convertedPrefix.length) : undefined
}

/** Name of the one policy that turns away whoever has no identity. */
export function formatStaticStrictName(rootNamespace: string): string {
  return `${rootNamespace}/${staticStrictName}`
}

const withoutIdentity: Clause = [{ notPrincipals: [{ kind: 'presence' }] }]

/** That one policy. */
export function toStaticStrictMessage(rootNamespace: string): AuthorizationMessage {
  return toDenial(rootNamespace, staticStrictName, [[withoutIdentity]])
}

/** What the ports of a policy are converted to; undefined when nobody lists it, because they change nothing or it selects nobody by labels. */
export function toConvertedMessage(
  policy: PeerPolicy,
  parentStrict: boolean,
  rootNamespace: string,
): AuthorizationMessage | undefined {
  if (policy.namespace === rootNamespace || isEmptyLabels(policy.selector)) return undefined
  const rules = toPortRules(policy, parentStrict)
  if (rules === undefined) return undefined
  const groups =
    rules.kind === 'strict'
      ? rules.ports.map((port): Group => [[{ notPrincipals: [{ kind: 'presence' }], destinationPorts: [port] }]])
      : [toExemption(rules.ports, policy.mode === 'STRICT', parentStrict)]
  return toDenial(policy.namespace, `${convertedPrefix}${policy.name}`, groups)
}

/** Who has no identity, and comes to none of the ports. Said twice when both levels are strict, as it always was on the wire. */
function toExemption(ports: readonly number[], policyStrict: boolean, parentStrict: boolean): Group {
  return [
    ...(policyStrict ? [withoutIdentity] : []),
    ...ports.map((port): Clause => [{ notDestinationPorts: [port] }]),
    ...(parentStrict ? [withoutIdentity] : []),
  ]
}

function toDenial(namespace: string, name: string, groups: readonly Group[]): AuthorizationMessage {
  const scope = AuthorizationScope.WORKLOAD_SELECTOR
  return { namespace, name, scope, action: AuthorizationAction.DENY, groups, dryRun: false }
}

/** The policies that a workload with these winners lists. */
export function toPeerPolicyNames(winners: PeerWinners, rootNamespace: string): readonly string[] {
  const parentStrict = isParentStrict(winners)
  const { workload } = winners
  if (workload !== undefined && toPortRules(workload, parentStrict) !== undefined)
    return [formatConvertedName(workload)]
  return isPolicyStrict(workload, parentStrict) ? [formatStaticStrictName(rootNamespace)] : []
}
