// SPDX-License-Identifier: Apache-2.0
// Flags of istiod's `discovery` command that change nothing here. They are taken with a warning, so that a Deployment made for istiod starts.

import type { IgnoredFlag } from '../base/settings.js'

const noWebhooks = 'addressd neither injects sidecars nor validates configuration'
const standardTls = 'the TLS port speaks TLS 1.2 and 1.3 with the cipher suites of Node.js'
const noControlz = 'there is no introspection port; see /debug on --monitoringAddr'
const ownPace = 'the API server is read by one list and one watch a kind, which needs no limit'
const jsonLogs = 'logs are always JSON lines; rotation is the job of whoever keeps them'
const oneCluster = 'this version serves one cluster'
const meshFromCluster = 'the mesh configuration is read from its ConfigMap'

const one = (flag: string, why: string): IgnoredFlag => ({ flag, value: 'one', why })
const none = (flag: string, why: string): IgnoredFlag => ({ flag, value: 'none', why })

export const istiodFlags: readonly IgnoredFlag[] = [
  one('registries', 'objects come from Kubernetes or from --files'),
  one('clusterRegistriesNamespace', oneCluster),
  one('clusterAliases', oneCluster),
  one('configDir', 'see --files'),
  one('meshConfig', meshFromCluster),
  one('networksConfig', meshFromCluster),
  one('plugins', 'there are no plugins'),
  one('resync', 'watches are never re-read on a timer'),
  one('httpsAddr', noWebhooks),
  one('injectionDirectory', noWebhooks),
  none('profile', 'there is no profiler'),
  one('tls-cipher-suites', standardTls),
  one('tls-min-version', standardTls),
  one('kubernetesApiQPS', ownPace),
  one('kubernetesApiBurst', ownPace),
  one('ctrlz_address', noControlz),
  one('ctrlz_port', noControlz),
  none('log_as_json', jsonLogs),
  one('log_caller', jsonLogs),
  one('log_stacktrace_level', jsonLogs),
  one('log_rotate', jsonLogs),
  one('log_rotate_max_age', jsonLogs),
  one('log_rotate_max_backups', jsonLogs),
  one('log_rotate_max_size', jsonLogs),
  one('vklog', 'there is no klog'),
]
