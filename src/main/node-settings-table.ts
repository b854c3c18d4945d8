// SPDX-License-Identifier: Apache-2.0
// Every setting of `addressd-node run`: the only place where its flags, environment names and defaults are written down. Names of istio-cni and ztunnel
// mean what they mean there.

import { hostname } from 'node:os'
import { booleanValue, integerValue, listenValue, nameValue, textValue } from '../base/setting-values.js'
import type { IgnoredFlag, SettingsOf, SettingsTable, ValueType } from '../base/settings.js'
import { isPlaintextAddress, parseTarget } from '../node-agent/addresses/target.js'
import { socketFolderValue, socketPathValue } from './node-path-values.js'
import { ruleSettings } from './node-rule-settings.js'
import { clusterIdValue, objects, objectSettings, selectSourceProblems, toLogSettings } from './shared-settings.js'

const enrolment = 'Which pods are in the mesh'
const host = 'Where things are on the host'
const plane = 'The control plane'
const operating = 'Pages and logs'

/** Comma-separated names; blanks around them and empty ones do not count. */
const namesValue: ValueType<readonly string[]> = {
  label: 'NAMES',
  parse: (text) =>
    text
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
}

/** Where a control plane is; what it may look like is checked here, so that the setting is named. */
const controlPlaneValue: ValueType<string> = {
  label: 'HOST:PORT',
  parse(text) {
    if (text !== '') parseTarget(text, isPlaintextAddress(text))
    return text
  },
}

/** The pods that istio-cni's chart chooses: by their own label, or by their namespace's unless they opt out. */
const chartSelectors =
  '[{"podSelector":{"matchLabels":{"istio.io/dataplane-mode":"ambient"}}},{"podSelector":{"matchExpressions":[{"key":"istio.io/dataplane-mode","operator":"NotIn","values":["none"]}]},"namespaceSelector":{"matchLabels":{"istio.io/dataplane-mode":"ambient"}}}]'

export const nodeSettingsTable = {
  ...objectSettings,
  nodeName: {
    group: objects,
    flag: 'node-name',
    env: 'NODE_NAME',
    default: hostname(),
    shownDefault: 'name of the host',
    type: nameValue('NAME'),
    sentence: 'Name of the node whose pods are looked after, as Kubernetes calls it.',
    fromIstiod: true,
  },
  podName: {
    group: objects,
    env: 'POD_NAME',
    default: '',
    type: textValue('NAME'),
    sentence: 'Name of the pod that this agent runs in, told to the control plane.',
    fromIstiod: true,
  },
  podNamespace: {
    group: objects,
    env: 'POD_NAMESPACE',
    default: 'istio-system',
    type: nameValue('NAMESPACE'),
    sentence: 'Namespace of this agent: its own pods, known by the name of the DaemonSet, start without it.',
    fromIstiod: true,
  },
  daemonSet: {
    group: objects,
    env: 'ADDRESSD_DAEMONSET',
    default: 'addressd-node',
    type: nameValue('NAME'),
    sentence: 'Name of the DaemonSet that runs this agent. Pods of istio-cni-node count as its own too.',
  },
  systemNamespace: {
    group: objects,
    env: 'SYSTEM_NAMESPACE',
    default: 'istio-system',
    type: nameValue('NAMESPACE'),
    sentence: 'Namespace of the control plane and of ztunnel: home of the mesh configuration.',
    fromIstiod: true,
  },
  revision: {
    group: objects,
    env: 'REVISION',
    default: '',
    type: textValue('NAME'),
    sentence: 'The mesh configuration is ConfigMap istio-NAME; empty: ConfigMap istio.',
    fromIstiod: true,
  },
  clusterId: {
    group: objects,
    flag: 'clusterID',
    env: 'CLUSTER_ID',
    default: 'Kubernetes',
    type: clusterIdValue,
    sentence:
      'Id of the cluster: the first part of the names under which the control plane serves the pods of this node.',
    fromIstiod: true,
  },
  ambientEnabled: {
    group: enrolment,
    flag: 'ambient-enabled',
    env: 'AMBIENT_ENABLED',
    default: 'true',
    type: booleanValue,
    sentence: 'Ambient mode is what this program is for; false stops the start.',
    fromIstiod: true,
  },
  enablementSelectors: {
    group: enrolment,
    env: 'AMBIENT_ENABLEMENT_SELECTOR',
    default: chartSelectors,
    shownDefault:
      'pods labelled istio.io/dataplane-mode=ambient, and those of namespaces labelled so unless their own label says none',
    type: textValue('YAML'),
    sentence:
      'Which pods are in the mesh: a YAML list of {podSelector, namespaceSelector}; one of them has to match. An empty list matches nothing.',
    fromIstiod: true,
  },
  excludeNamespaces: {
    group: enrolment,
    env: 'EXCLUDE_NAMESPACES',
    default: 'kube-system',
    type: namesValue,
    sentence: 'Namespaces whose pods are never in the mesh, whatever their labels say; a comma alone means none.',
    fromIstiod: true,
  },
  ...ruleSettings,
  ztunnelSocket: {
    group: host,
    flag: 'ztunnel-uds-address',
    env: 'ZTUNNEL_UDS_ADDRESS',
    default: '/var/run/ztunnel/ztunnel.sock',
    type: socketPathValue,
    sentence: 'Socket at which ztunnel is waited for: an absolute path, at most 102 bytes.',
    fromIstiod: true,
  },
  runFolder: {
    group: host,
    flag: 'cni-agent-run-dir',
    env: 'CNI_AGENT_RUN_DIR',
    default: '/var/run/istio-cni',
    type: socketFolderValue,
    sentence:
      'Folder of the sockets at which the CNI plugin asks (pluginevent.sock) and people do (node.sock): an absolute path, at most 85 bytes.',
    fromIstiod: true,
  },
  hostRoot: {
    group: host,
    env: 'ADDRESSD_HOST_ROOT',
    default: '',
    type: textValue('DIR'),
    sentence:
      "Where the host's files are seen: paths of namespaces are looked for below it. Empty: /host where that has a proc, else /.",
  },
  hostProc: {
    group: host,
    env: 'ADDRESSD_HOST_PROC',
    default: '',
    type: textValue('DIR'),
    sentence: "The host's /proc, for finding the namespaces of running pods. Empty: proc below the root above.",
  },
  toolPath: {
    group: host,
    env: 'ADDRESSD_TOOL_PATH',
    default: '',
    type: textValue('PATH'),
    sentence:
      'Folders, separated by colons, in which iptables and ipset are looked for. Empty: the PATH of this program.',
  },
  xdsAddress: {
    group: plane,
    env: 'XDS_ADDRESS',
    default: '',
    type: controlPlaneValue,
    sentence:
      'The control plane (port 15012 for TLS; plaintext with port 15010 or http:// before it, which only an address of this machine may have): asked what addresses are, and whether the pods enrolled here are served as such. Empty: nobody is asked.',
    fromIstiod: true,
  },
  xdsRootFile: {
    group: plane,
    env: 'XDS_ROOT_CA',
    default: '/var/run/secrets/istio/root-cert.pem',
    type: textValue('FILE'),
    sentence: 'Certificates that the control plane is trusted by.',
    fromIstiod: true,
  },
  tokenFile: {
    group: plane,
    env: 'ADDRESSD_TOKEN_FILE',
    default: '/var/run/secrets/tokens/istio-token',
    type: textValue('FILE'),
    sentence: 'Token that is shown to the control plane; read again at every connection.',
  },
  network: {
    group: plane,
    env: 'NETWORK',
    default: '',
    type: textValue('NAME'),
    sentence: 'Network of this node: a plain address in a question is one of this network.',
    fromIstiod: true,
  },
  cacheEntries: {
    group: plane,
    env: 'ADDRESSD_CACHE_ENTRIES',
    default: '10000',
    type: integerValue(1),
    sentence: 'Most answers of the control plane that are kept, beside the pods of this node.',
  },
  healthAddr: {
    group: operating,
    flag: 'health-addr',
    env: 'ADDRESSD_HEALTH_ADDR',
    default: ':8000',
    type: listenValue,
    sentence: '/healthz and /readyz. Empty is off.',
  },
  monitoringPort: {
    group: operating,
    flag: 'monitoring-port',
    env: 'MONITORING_PORT',
    default: '15014',
    type: integerValue(-1, 65_535),
    sentence: 'Port of /metrics; below 1 is off.',
    fromIstiod: true,
  },
  ...toLogSettings(operating),
} satisfies SettingsTable

export type NodeSettings = SettingsOf<typeof nodeSettingsTable>

/** Rules that the table cannot say; each sentence is a problem. */
export function selectNodeContradictions(settings: NodeSettings): readonly string[] {
  const problems: string[] = []
  if (!settings.ambientEnabled) {
    problems.push(
      'AMBIENT_ENABLED: false leaves nothing to do; addressd-node enrols pods into ambient meshes only. Set it to true or leave it out',
    )
  }
  problems.push(...selectSourceProblems(settings))
  if (settings.nativeNftables === true && settings.forceIptablesBinary !== undefined) {
    problems.push('NATIVE_NFTABLES=true and FORCE_IPTABLES_BINARY exclude each other: set one of them')
  }
  return problems
}

const formatOnly = 'logs are one JSON object a line'
const noPages = 'there are no introspection pages'

/** Flags of istio-cni that change nothing here. */
export const istioCniFlags: readonly IgnoredFlag[] = [
  { flag: 'log_as_json', value: 'none', why: formatOnly },
  { flag: 'log_caller', value: 'one', why: formatOnly },
  { flag: 'log_stacktrace_level', value: 'one', why: formatOnly },
  { flag: 'log_rotate', value: 'one', why: formatOnly },
  { flag: 'vklog', value: 'one', why: 'it speaks of a library that is not in here' },
  { flag: 'ctrlz_port', value: 'one', why: noPages },
  { flag: 'ctrlz_address', value: 'one', why: noPages },
]
