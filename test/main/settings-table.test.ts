// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { parseSettings, type SettingsTable } from '../../src/base/settings.js'
import { selectJwtRules } from '../../src/main/identity-settings.js'
import { istiodFlags } from '../../src/main/istiod-flags.js'
import { selectContradictions, settingsTable, type Settings } from '../../src/main/settings-table.js'

function read(argv: string[], env: Record<string, string> = {}) {
  const { settings, warnings } = parseSettings({
    table: settingsTable,
    ignored: istiodFlags,
    argv,
    env,
    ownPrefix: 'ADDRESSD_',
    check: selectContradictions,
  })
  return { settings, warnings }
}

const defaults: Settings = {
  kubeconfig: '',
  files: '/manifests',
  kubernetesHost: '',
  kubernetesPort: 443,
  clusterId: 'Kubernetes',
  revision: '',
  systemNamespace: 'istio-system',
  podName: '',
  domain: 'cluster.local',
  grpcAddr: { host: '127.0.0.1', port: 15_010 },
  secureGrpcAddr: { host: undefined, port: 15_012 },
  httpAddr: { host: undefined, port: 8_080 },
  monitoringAddr: { host: undefined, port: 15_014 },
  tlsCertFile: '',
  tlsKeyFile: '',
  caCertFile: '',
  xdsAuth: true,
  xdsAuthPlaintext: false,
  xdsIdentityCheck: true,
  xdsTrustedAccounts: { accounts: new Set(), malformed: [] },
  caTrustedNodeAccounts: { accounts: new Set(), malformed: [] },
  tokenAudiences: ['istio-ca'],
  jwtRule: undefined,
  tokenIssuer: '',
  tokenIssuerAudience: '',
  tokenKeys: '',
  debugByNamespace: true,
  debugNamespaces: [],
  enableAmbient: true,
  enableMultiNetwork: false,
  autoAllowWaypointPolicy: false,
  dryRunPolicies: false,
  serviceEntrySelectsPods: true,
  serviceSelectsWorkloadEntries: true,
  ipAutoallocate: true,
  autoallocateIpv4Prefix: '240.240.0.0/16',
  autoallocateIpv6Prefix: '2001:2::/48',
  enableStatus: true,
  enableUntaint: false,
  enableCa: true,
  rootCaDir: './etc/cacerts',
  rootFile: './var/addressd/root.pem',
  rootTtlMs: 10 * 365 * 86_400_000,
  rootKeyBits: 2048,
  rootCheckMs: 3_600_000,
  useCacertsForSelfSigned: false,
  multiRoot: false,
  workloadTtlMs: 86_400_000,
  maxWorkloadTtlMs: 90 * 86_400_000,
  customHosts: '',
  rootMapName: 'istio-ca-root-cert',
  crlMapName: 'istio-ca-crl',
  enableCrl: true,
  signerPatienceMs: 1000,
  untaintName: 'cni.istio.io/not-ready',
  cniNamespace: '',
  debounceAfterMs: 10,
  debounceMaxMs: 1_000,
  sendTimeoutMs: 60_000,
  maxReceiveBytes: 67_108_864,
  maxStreams: 256,
  maxNames: 2_000_000,
  sharedBytes: 268_435_456,
  keepaliveIntervalMs: 30_000,
  keepaliveTimeoutMs: 10_000,
  maxConnectionAgeMs: 1_800_000,
  shutdownDurationMs: 10_000,
  metricsLocalOnly: false,
  debugOnHttp: true,
  logLevels: { standard: 'info', byScope: {} },
  logTarget: 'stdout',
}

test('with nothing but a folder everything has its documented default', () => {
  expect(read(['--files', '/manifests'])).toEqual({ settings: defaults, warnings: [] })
})

test('every name stands in the table once, with a sentence and a default that can be read or stands for "not given"', () => {
  const settings = Object.values(settingsTable as SettingsTable)
  for (const name of ['flag', 'short', 'env'] as const) {
    const names = settings.map((setting) => setting[name]).filter((text) => text !== undefined)
    expect(names).toEqual([...new Set(names)])
  }
  expect(settings.filter((setting) => setting.flag === undefined && setting.env === undefined)).toEqual([])
  expect(settings.filter((setting) => !setting.sentence.endsWith('.'))).toEqual([])
  const own = new Set(settings.map((setting) => setting.flag))
  expect(istiodFlags.filter((flag) => own.has(flag.flag))).toEqual([])
})

test('the environment of an istiod Deployment says the same things here', () => {
  const env = {
    REVISION: 'default',
    PILOT_CERT_PROVIDER: 'istiod',
    POD_NAME: 'istiod-1',
    POD_NAMESPACE: 'mesh',
    SERVICE_ACCOUNT: 'istiod',
    KUBECONFIG: '/var/run/secrets/remote/config',
    CA_TRUSTED_NODE_ACCOUNTS: 'mesh/ztunnel',
    PILOT_TRACE_SAMPLING: '1',
    PILOT_ENABLE_ANALYSIS: 'false',
    CLUSTER_ID: 'west',
    GOMEMLIMIT: '1',
    PLATFORM: '',
    PILOT_ENABLE_AMBIENT: 'true',
    PILOT_DEBOUNCE_AFTER: '100ms',
    KUBERNETES_SERVICE_HOST: '10.96.0.1',
    KUBERNETES_SERVICE_PORT: '443',
  }
  const argv = [
    'httpsAddr=:15017',
    'monitoringAddr=:15014',
    'log_output_level=default:info',
    'domain=cluster.local',
    'keepaliveMaxServerConnectionAge=30m',
    'log_as_json',
  ].map((flag) => `--${flag}`)
  expect(read(argv, env)).toEqual({
    settings: {
      ...defaults,
      files: '',
      kubernetesHost: '10.96.0.1',
      revision: 'default',
      podName: 'istiod-1',
      systemNamespace: 'mesh',
      clusterId: 'west',
      caTrustedNodeAccounts: { accounts: new Set(['mesh/ztunnel']), malformed: [] },
      debounceAfterMs: 100,
    },
    warnings: [
      '--httpsAddr is ignored: addressd neither injects sidecars nor validates configuration',
      '--log_as_json is ignored: logs are always JSON lines; rotation is the job of whoever keeps them',
    ],
  })
})

test('issuers of signed tokens come from a rule, from single settings, or from both', () => {
  const env = {
    JWT_RULE: '{"issuer":"https://one"}',
    TOKEN_ISSUER: 'two',
    AUDIENCE: 'mesh',
    ADDRESSD_TOKEN_KEYS: '/etc/keys.json',
  }
  expect(selectJwtRules(read(['--files=/manifests'], env).settings)).toEqual([
    { issuer: 'https://one', audiences: [], keys: { kind: 'discovery' } },
    { issuer: 'two', audiences: ['mesh'], keys: { kind: 'file', path: '/etc/keys.json' } },
  ])
  expect(selectJwtRules(read(['--files=/manifests']).settings)).toEqual([])
})

describe('what stops the start', () => {
  test.each<[string, string[], Record<string, string>, string]>([
    ['ambient off', [], { PILOT_ENABLE_AMBIENT: 'F' }, 'PILOT_ENABLE_AMBIENT: false leaves nothing to serve'],
    [
      'several clusters',
      [],
      { AMBIENT_ENABLE_MULTI_NETWORK: 'T' },
      'AMBIENT_ENABLE_MULTI_NETWORK: this version serves',
    ],
    ['two places to read from', ['--kubeconfig=x'], {}, '--files and --kubeconfig exclude each other'],
    ['a longest wait below the shortest', [], { PILOT_DEBOUNCE_MAX: '5ms' }, 'PILOT_DEBOUNCE_MAX: must not be shorter'],
    ['a cluster id with a slash', ['--clusterID=a/b'], {}, '--clusterID: "a/b" is not a cluster id'],
    ['a domain that is none', ['--domain=.local'], {}, '--domain: ".local" is not a domain name'],
    ['a prefix of the other family', [], { PILOT_IP_AUTOALLOCATE_IPV4_PREFIX: '::/8' }, '"::/8" is not an IPv4 prefix'],
    ['a log level that is none', ['--log_output_level=loud'], {}, '--log_output_level: "loud" is not a log level'],
    ['a connection age of nothing', ['--keepaliveMaxServerConnectionAge=0'], {}, 'must be more than zero'],
    ['a certificate without its key', ['--tlsCertFile=x'], {}, '--tlsCertFile and --tlsKeyFile go together'],
    ['an account that is none', [], { XDS_TRUSTED_ACCOUNTS: 'a/b,ztunnel' }, '"ztunnel" is not an account'],
    [
      'accounts that nobody could tell apart',
      [],
      { XDS_AUTH: 'false', XDS_TRUSTED_ACCOUNTS: 'a/b' },
      'XDS_AUTH: false leaves no way to know the accounts of XDS_TRUSTED_ACCOUNTS',
    ],
    ['no audience at all', [], { TOKEN_AUDIENCES: ' , ' }, 'TOKEN_AUDIENCES: must name at least one'],
    ['a rule that is none', [], { JWT_RULE: '{}' }, 'JWT_RULE: the rule has no issuer'],
    ['keys of nobody', [], { ADDRESSD_TOKEN_KEYS: 'k' }, 'ADDRESSD_TOKEN_KEYS: whose keys they are is missing'],
    ['an issuer without keys', [], { TOKEN_ISSUER: 'i' }, 'TOKEN_ISSUER: the issuer "i" is no URL'],
    ['a limit below any request', [], { ISTIO_GPRC_MAXRECVMSGSIZE: '100' }, 'it must be from 65536 to'],
  ])('%s', (_name, argv, env, message) => {
    expect(() => read(['--files=/manifests', ...argv], env)).toThrow(message)
  })

  test('nothing to read', () => {
    expect(() => read([])).toThrow('nothing to read: give --files DIR or --kubeconfig FILE, or run inside a cluster')
  })
})
