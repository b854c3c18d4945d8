// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects as narrow frozen rows: only what an answer can depend on. Made by project*.ts, read by everybody else.
// Absent is `undefined` only where the rules tell absent from empty; elsewhere absent is the zero value.

export type Labels = Readonly<Record<string, string>>

/** What every namespaced record has. */
export interface Meta {
  /** Cluster the object lives in. */
  readonly cluster: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** Undefined when the object has no labels at all (`labels: {}` in metadata counts as none). */
  readonly labels: Labels | undefined
  /** Only the annotations that some rule reads for this kind; undefined when none of them is there. */
  readonly annotations: Labels | undefined
  /** creationTimestamp in seconds since the epoch; 0 when absent, which makes it the oldest. */
  readonly created: number
}

/** A condition of a status, of a type that is written back. Conditions of other types are not kept. */
export interface ConditionRecord {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
  /** 0 when absent. */
  readonly observedGeneration: number
}

/** A kind that conditions are written to. */
export interface Conditioned {
  /** Those of the types that resources.ts names for the kind, by type. */
  readonly conditions: readonly ConditionRecord[]
}

/** A container port that a name can resolve to: TCP and named. */
export interface NamedPort {
  readonly name: string
  readonly port: number
}

export interface PodRecord extends Meta {
  readonly deleting: boolean
  /** metadata.generateName is non-empty. */
  readonly generated: boolean
  /** The first ownerReference with controller=true. */
  readonly owner: { readonly kind: string; readonly name: string } | undefined
  readonly node: string
  readonly serviceAccount: string
  readonly hostNetwork: boolean
  /** Named TCP ports of spec.containers in order, then of init containers with restartPolicy Always. */
  readonly ports: readonly NamedPort[]
  readonly phase: string
  /** status.podIPs, or [status.podIP] when that list is empty; as written. */
  readonly ips: readonly string[]
  /** Condition Ready is True. */
  readonly ready: boolean
}

export interface ServicePortRecord {
  readonly name: string
  readonly port: number
  readonly protocol: string
  readonly appProtocol: string | undefined
  /** A number, or the name of a container port. */
  readonly targetPort: number | string
}

export interface ServiceRecord extends Meta, Conditioned {
  readonly type: string
  /** spec.clusterIPs, or [spec.clusterIP] when that list is empty, without "" and "None"; as written. */
  readonly clusterIps: readonly string[]
  readonly ports: readonly ServicePortRecord[]
  readonly selector: Labels | undefined
  readonly ipFamilies: readonly string[]
  readonly internalTrafficPolicy: string
  readonly trafficDistribution: string
  readonly publishNotReadyAddresses: boolean
}

export interface EndpointRecord {
  readonly addresses: readonly string[]
  /** conditions.ready is unset or true. */
  readonly ready: boolean
  readonly target:
    { readonly kind: string; readonly namespace: string; readonly name: string; readonly uid: string } | undefined
}

export interface SlicePortRecord {
  readonly name: string | undefined
  readonly port: number | undefined
  readonly protocol: string
}

export interface EndpointSliceRecord extends Meta {
  readonly addressType: string
  readonly ports: readonly SlicePortRecord[]
  readonly endpoints: readonly EndpointRecord[]
}

export interface NodeRecord {
  readonly cluster: string
  readonly name: string
  readonly region: string
  readonly zone: string
  readonly subzone: string
  /** Keys of its taints, as written. */
  readonly taints: readonly string[]
}

export interface NamespaceRecord {
  readonly cluster: string
  readonly name: string
  readonly labels: Labels | undefined
  readonly annotations: Labels | undefined
}

export interface LabelSelectorRecord {
  readonly matchLabels: Labels | undefined
  readonly matchExpressions: readonly {
    readonly key: string
    readonly operator: string
    readonly values: readonly string[]
  }[]
}

export interface ListenerRecord {
  readonly name: string
  readonly port: number
  readonly protocol: string
  readonly tlsMode: string
  /** allowedRoutes.namespaces; undefined when absent. */
  readonly allowedNamespaces: { readonly from: string; readonly selector: LabelSelectorRecord | undefined } | undefined
}

export interface GatewayRecord extends Meta {
  readonly className: string
  /** status.addresses; `type` is empty when unset. */
  readonly addresses: readonly { readonly type: string; readonly value: string }[]
  readonly listeners: readonly ListenerRecord[]
}

export interface GatewayClassRecord {
  readonly cluster: string
  readonly name: string
  /** spec.controllerName. */
  readonly controller: string
  readonly labels: Labels | undefined
  readonly annotations: Labels | undefined
}

/** One endpoint of the networking API: a WorkloadEntry's spec, or an item of a ServiceEntry's endpoints. */
export interface WorkloadSpecRecord {
  readonly address: string
  readonly ports: Readonly<Record<string, number>>
  /** Undefined when absent; `{}` is kept apart from absent. */
  readonly labels: Labels | undefined
  readonly network: string
  readonly locality: string
  readonly weight: number
  readonly serviceAccount: string
}

export interface WorkloadEntryRecord extends Meta, Conditioned {
  readonly spec: WorkloadSpecRecord
}

export interface ServiceEntryPortRecord {
  readonly number: number
  readonly protocol: string
  readonly name: string
  /** 0 when absent. */
  readonly targetPort: number
}

export interface ServiceEntryRecord extends Meta, Conditioned {
  readonly hosts: readonly string[]
  readonly addresses: readonly string[]
  readonly ports: readonly ServiceEntryPortRecord[]
  /** NONE when absent. */
  readonly resolution: string
  readonly endpoints: readonly WorkloadSpecRecord[]
  /** spec.workloadSelector.labels; undefined when there is no workloadSelector, `{}` when it has no labels. */
  readonly workloadSelector: Labels | undefined
  readonly subjectAltNames: readonly string[]
  readonly statusAddresses: readonly { readonly value: string; readonly host: string }[]
}

/** What a policy is attached to by name, in the policy's own namespace or without one. */
export interface PolicyTargetRecord {
  /** Empty for the core group. */
  readonly group: string
  readonly kind: string
  readonly name: string
}

export interface AuthorizationPolicyRecord extends Meta, Conditioned {
  /** metadata.generation: grows with every change of the spec. 0 when absent. */
  readonly generation: number
  /** ALLOW when absent. */
  readonly action: string
  /** targetRef or targetRefs is present. */
  readonly targeted: boolean
  /** targetRefs, or the single targetRef when that list is empty. */
  readonly targets: readonly PolicyTargetRecord[]
  /** spec.selector is there, whatever is in it. */
  readonly hasSelector: boolean
  /** spec.selector.matchLabels; undefined when there is no selector or it has no matchLabels, `{}` when that map is there and empty. */
  readonly selector: Labels | undefined
  /** spec.rules as written (frozen JSON). */
  readonly rules: readonly unknown[] | undefined
}

export interface PeerAuthenticationRecord extends Meta {
  /** Undefined when spec.selector is absent; its matchLabels (or `{}`) otherwise. */
  readonly selector: Labels | undefined
  /** UNSET when absent. */
  readonly mode: string
  /** portLevelMtls: port number as text to mode; undefined when absent. */
  readonly portModes: Readonly<Record<string, string>> | undefined
}

export interface ConfigMapRecord {
  readonly cluster: string
  readonly namespace: string
  readonly name: string
  /** Key `mesh` of its data; undefined when absent. */
  readonly mesh: string | undefined
}

/** Kind name to record type: the one list of what is watched. */
export interface RecordByKind {
  Pod: PodRecord
  Service: ServiceRecord
  EndpointSlice: EndpointSliceRecord
  Node: NodeRecord
  Namespace: NamespaceRecord
  Gateway: GatewayRecord
  GatewayClass: GatewayClassRecord
  WorkloadEntry: WorkloadEntryRecord
  ServiceEntry: ServiceEntryRecord
  AuthorizationPolicy: AuthorizationPolicyRecord
  PeerAuthentication: PeerAuthenticationRecord
  ConfigMap: ConfigMapRecord
}

export type Kind = keyof RecordByKind

/** The value under a key; undefined when the key is not there. Never a property that every object has. */
export function labelOf(labels: Labels | undefined, key: string): string | undefined {
  return labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined
}

/** Key of a namespaced object's row. */
export function objectKey(cluster: string, namespace: string, name: string): string {
  return `${cluster}/${namespace}/${name}`
}

/** Key of a cluster-scoped object's row (Node, Namespace, GatewayClass). */
export function clusterKey(cluster: string, name: string): string {
  return `${cluster}/${name}`
}
