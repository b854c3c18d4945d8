// SPDX-License-Identifier: Apache-2.0
// Every setting of `addressd serve`: the only place where flags, environment names and defaults are written down. Help and docs/CONFIG.md are made from it.

import { InvalidInput } from '../base/errors.js'
import { parsePrefix } from '../base/ip.js'
import {
  booleanValue,
  durationValue,
  integerValue,
  listenValue,
  nameValue,
  periodValue,
  textValue,
} from '../base/setting-values.js'
import type { SettingsOf, SettingsTable, ValueType } from '../base/settings.js'
import { caSettings } from './ca-settings.js'
import { controlSettings } from './control-settings.js'
import { identitySettings, selectIdentityContradictions } from './identity-settings.js'
import { clusterIdValue, objects, objectSettings, selectSourceProblems, toLogSettings } from './shared-settings.js'

/** A prefix of the given family, kept as text. */
function prefixValue(bytes: 4 | 16, example: string): ValueType<string> {
  return {
    label: 'PREFIX',
    parse(text) {
      if (parsePrefix(text)?.address.length !== bytes) {
        throw new InvalidInput(`"${text}" is not an ${bytes === 4 ? 'IPv4' : 'IPv6'} prefix; write it like ${example}`)
      }
      return text
    },
  }
}

/** A DNS name without a leading or trailing dot, as Service host names end in it. */
const domainValue: ValueType<string> = {
  label: 'DOMAIN',
  parse(text) {
    if (!/^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$/.test(text)) {
      throw new InvalidInput(`"${text}" is not a domain name; write it like cluster.local`)
    }
    return text
  },
}

const listening = 'Listening'
const answers = 'What is answered'
const pushing = 'Pushing to clients'
const operating = 'Pages, logs and the end'

export const settingsTable = {
  ...objectSettings,
  clusterId: {
    group: objects,
    flag: 'clusterID',
    env: 'CLUSTER_ID',
    default: 'Kubernetes',
    type: clusterIdValue,
    sentence: 'Id of the cluster whose objects are read; the first part of every workload uid.',
    fromIstiod: true,
  },
  revision: {
    group: objects,
    env: 'REVISION',
    default: '',
    type: textValue('NAME'),
    sentence:
      'Revision of this control plane: objects labelled with another one are passed over, and the mesh configuration is ConfigMap istio-NAME. Empty: objects of every revision, ConfigMap istio.',
    fromIstiod: true,
  },
  systemNamespace: {
    group: objects,
    flag: 'namespace',
    short: 'n',
    env: 'POD_NAMESPACE',
    default: 'istio-system',
    type: nameValue('NAMESPACE'),
    sentence:
      'Namespace of the control plane: home of the mesh configuration and of the label that names the local network.',
    fromIstiod: true,
  },
  podName: {
    group: objects,
    env: 'POD_NAME',
    default: '',
    type: textValue('NAME'),
    sentence: 'Name of the pod that this process runs in, for the pages that say who answers.',
    fromIstiod: true,
  },
  domain: {
    group: objects,
    flag: 'domain',
    default: 'cluster.local',
    type: domainValue,
    sentence: 'Suffix of the host names of Kubernetes Services.',
    fromIstiod: true,
  },
  grpcAddr: {
    group: listening,
    flag: 'grpcAddr',
    default: '127.0.0.1:15010',
    type: listenValue,
    sentence:
      'Plaintext gRPC: discovery, health, reflection and the questions of addressctl, without authentication, hence on this machine alone unless told otherwise. `:15010` is every address, empty is off.',
    fromIstiod: true,
  },
  secureGrpcAddr: {
    group: listening,
    flag: 'secureGRPCAddr',
    default: ':15012',
    type: listenValue,
    sentence:
      'gRPC over TLS: discovery for callers that prove who they are, and certificates. Stays closed, with a warning, when there is no certificate to show; empty is off.',
    fromIstiod: true,
  },
  httpAddr: {
    group: listening,
    flag: 'httpAddr',
    default: ':8080',
    type: listenValue,
    sentence: '/ready, and /debug for callers of this machine and those with a token. Empty is off.',
    fromIstiod: true,
  },
  monitoringAddr: {
    group: listening,
    flag: 'monitoringAddr',
    default: ':15014',
    type: listenValue,
    sentence: '/metrics, /version, and /debug for callers of this machine and those with a token. Empty is off.',
    fromIstiod: true,
  },
  ...identitySettings,
  ...caSettings,
  enableAmbient: {
    group: answers,
    env: 'PILOT_ENABLE_AMBIENT',
    default: 'true',
    type: booleanValue,
    sentence: 'Ambient mode is what this program is for; false stops the start.',
    fromIstiod: true,
  },
  enableMultiNetwork: {
    group: answers,
    env: 'AMBIENT_ENABLE_MULTI_NETWORK',
    default: 'false',
    type: booleanValue,
    sentence:
      'Merge the objects of several clusters. This version serves one cluster (of any number of networks); true stops the start.',
    fromIstiod: true,
  },
  autoAllowWaypointPolicy: {
    group: answers,
    env: 'PILOT_AUTO_ALLOW_WAYPOINT_POLICY',
    default: 'false',
    type: booleanValue,
    sentence:
      'An implicit policy for each waypoint lets it in to the workloads behind it, and is served and listed by them.',
    fromIstiod: true,
  },
  dryRunPolicies: {
    group: answers,
    env: 'AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY',
    default: 'false',
    type: booleanValue,
    sentence:
      'Authorization policies that are only tried out (annotated as dry-run) are served and listed too, marked so.',
    fromIstiod: true,
  },
  serviceEntrySelectsPods: {
    group: answers,
    env: 'PILOT_ENABLE_SERVICEENTRY_SELECT_PODS',
    default: 'true',
    type: booleanValue,
    sentence: 'The workload selector of a ServiceEntry selects Pods.',
    fromIstiod: true,
  },
  serviceSelectsWorkloadEntries: {
    group: answers,
    env: 'PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES',
    default: 'true',
    type: booleanValue,
    sentence: 'The selector of a Kubernetes Service selects WorkloadEntries.',
    fromIstiod: true,
  },
  ipAutoallocate: {
    group: answers,
    env: 'PILOT_ENABLE_IP_AUTOALLOCATE',
    default: 'true',
    type: booleanValue,
    sentence:
      'Hosts of ServiceEntries that have no address get one: one replica allocates it and writes it into the status of the entry. Off, addresses that stand there are not used either. With --files none is allocated, and those that stand there are used.',
    fromIstiod: true,
  },
  autoallocateIpv4Prefix: {
    group: answers,
    env: 'PILOT_IP_AUTOALLOCATE_IPV4_PREFIX',
    default: '240.240.0.0/16',
    type: prefixValue(4, '240.240.0.0/16'),
    sentence: 'IPv4 addresses to allocate from.',
    fromIstiod: true,
  },
  autoallocateIpv6Prefix: {
    group: answers,
    env: 'PILOT_IP_AUTOALLOCATE_IPV6_PREFIX',
    default: '2001:2::/48',
    type: prefixValue(16, '2001:2::/48'),
    sentence: 'IPv6 addresses to allocate from.',
    fromIstiod: true,
  },
  ...controlSettings,
  debounceAfterMs: {
    group: pushing,
    env: 'PILOT_DEBOUNCE_AFTER',
    default: '10ms',
    type: durationValue,
    sentence: 'Changes are pushed once nothing has changed for this long.',
    fromIstiod: true,
  },
  debounceMaxMs: {
    group: pushing,
    env: 'PILOT_DEBOUNCE_MAX',
    default: '1s',
    type: durationValue,
    sentence: 'Changes that do not pause are pushed at the latest after this long.',
    fromIstiod: true,
  },
  sendTimeoutMs: {
    group: pushing,
    env: 'PILOT_XDS_SEND_TIMEOUT',
    default: '60s',
    type: periodValue,
    sentence: 'A client that takes nothing of what is sent to it for this long is cut off.',
    fromIstiod: true,
  },
  maxReceiveBytes: {
    group: pushing,
    env: 'ISTIO_GPRC_MAXRECVMSGSIZE',
    default: '67108864',
    type: integerValue(65_536, 0x7fff_ffff),
    sentence:
      'Largest request in bytes. A proxy that comes back lists everything it holds, about 100 bytes each, in one request.',
    fromIstiod: true,
  },
  maxStreams: {
    group: pushing,
    env: 'ISTIO_GPRC_MAXSTREAMS',
    default: '256',
    type: integerValue(1, 0x7fff_ffff),
    sentence: 'Most streams that one connection may hold open.',
    fromIstiod: true,
  },
  maxNames: {
    group: pushing,
    env: 'ADDRESSD_MAX_NAMES',
    default: '2000000',
    type: integerValue(1),
    sentence: 'Most names that one stream may ask for of one type.',
  },
  sharedBytes: {
    group: pushing,
    env: 'ADDRESSD_SHARED_BYTES',
    default: '268435456',
    type: integerValue(0),
    sentence: 'Most memory, in bytes, for responses that are kept to be sent to several clients.',
  },
  keepaliveIntervalMs: {
    group: pushing,
    flag: 'keepaliveInterval',
    env: 'GRPC_KEEPALIVE_INTERVAL',
    default: '30s',
    type: periodValue,
    sentence: 'A connection that is silent for this long is asked whether it is still there.',
    fromIstiod: true,
  },
  keepaliveTimeoutMs: {
    group: pushing,
    flag: 'keepaliveTimeout',
    env: 'GRPC_KEEPALIVE_TIMEOUT',
    default: '10s',
    type: periodValue,
    sentence: 'A connection that does not answer that question for this long is closed.',
    fromIstiod: true,
  },
  maxConnectionAgeMs: {
    group: pushing,
    flag: 'keepaliveMaxServerConnectionAge',
    default: '30m',
    type: periodValue,
    sentence:
      'A connection is closed gently after about this long (a tenth more or less by chance), so that clients spread over the replicas.',
    fromIstiod: true,
  },
  shutdownDurationMs: {
    group: operating,
    flag: 'shutdownDuration',
    default: '10s',
    type: durationValue,
    sentence:
      'After SIGTERM streams are ended one by one; what is left after this long is cut. A second signal cuts at once.',
    fromIstiod: true,
  },
  metricsLocalOnly: {
    group: operating,
    env: 'METRICS_LOCALHOST_ACCESS_ONLY',
    default: 'false',
    type: booleanValue,
    sentence: '/metrics answers callers of this machine only.',
    fromIstiod: true,
  },
  debugOnHttp: {
    group: operating,
    env: 'ENABLE_DEBUG_ON_HTTP',
    default: 'true',
    type: booleanValue,
    sentence: '/debug is served on --httpAddr too, not on --monitoringAddr alone.',
    fromIstiod: true,
  },
  ...toLogSettings(operating),
} satisfies SettingsTable

export type Settings = SettingsOf<typeof settingsTable>

/** Rules that the table cannot say; each sentence is a problem. */
export function selectContradictions(settings: Settings): readonly string[] {
  const problems: string[] = []
  if (!settings.enableAmbient) {
    problems.push(
      'PILOT_ENABLE_AMBIENT: false leaves nothing to serve; addressd serves ambient mode only. Set it to true or leave it out',
    )
  }
  if (settings.enableMultiNetwork) {
    problems.push(
      'AMBIENT_ENABLE_MULTI_NETWORK: this version serves one cluster and cannot merge several; set it to false or leave it out',
    )
  }
  problems.push(...selectSourceProblems(settings))
  if (settings.debounceMaxMs < settings.debounceAfterMs) {
    problems.push('PILOT_DEBOUNCE_MAX: must not be shorter than PILOT_DEBOUNCE_AFTER')
  }
  problems.push(...selectIdentityContradictions(settings))
  return problems
}
