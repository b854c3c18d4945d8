// SPDX-License-Identifier: Apache-2.0
// The chart of the node agent: what helm makes of it, what it tells the program, held against the table of its settings, and what it grants.

import { describe, expect, test } from '@jest/globals'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSettings, type SettingsTable } from '../../src/base/settings.js'
import {
  istioCniFlags,
  nodeSettingsTable,
  selectNodeContradictions,
  type NodeSettings,
} from '../../src/main/node-settings-table.js'
import { findHelm, type Helm } from '../support/helm.js'
import { testWith } from '../support/optional.js'
import { selectKind, type Manifest } from './golden.js'
import {
  nodeChart,
  nodeValueSets,
  readNodeGolden,
  selectAgent,
  toNodeGoldenPath,
  toNodeValueFlags,
  type NodeValueSet,
} from './node-golden.js'

const found = await findHelm()
const helm = found as Helm
const testHelm = testWith('helm', typeof found === 'function' ? undefined : found.unavailable)
const namespace = 'istio-system'
const release = ['node', nodeChart, '--namespace', namespace] as const

async function render(...flags: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await helm('template', ...release, ...flags)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
}

async function refuse(...flags: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await helm('template', ...release, ...flags.flatMap((flag) => ['--set', flag]))
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  return stderr
}

async function readNotes(...flags: readonly string[]): Promise<string> {
  const { code, stdout } = await helm('install', ...release, '--dry-run=client', ...flags)
  expect(code).toBe(0)
  return stdout.slice(stdout.indexOf('NOTES:\n') + 'NOTES:\n'.length)
}

describe('rendering', () => {
  for (const set of nodeValueSets) {
    testHelm(`with the values "${set}" the chart passes lint and renders to its golden file`, async () => {
      const lint = await helm('lint', '--strict', nodeChart, '--namespace', namespace, ...toNodeValueFlags(set))
      expect(lint.stdout).toContain('1 chart(s) linted, 0 chart(s) failed')
      const text = await render(...toNodeValueFlags(set))
      if (process.env['TEST_WRITE_GOLDEN'] === '1') writeFileSync(toNodeGoldenPath(set), text)
      expect(text).toBe(readFileSync(toNodeGoldenPath(set), 'utf8'))
    })
  }

  testHelm('an unknown name and a wrong type are named with their place', async () => {
    const text = await refuse('netRow=true', 'netRaw=sometimes')
    expect(text).toContain("at '': additional properties 'netRow' not allowed")
    expect(text).toContain("at '/netRaw': got string, want boolean")
  })

  testHelm('what a type cannot say is said in a sentence, all of it at once', async () => {
    const flags = [
      'ambient.enabled=false',
      'cniBinDir=bin',
      'cniNetnsDir=/',
      'xdsAddress=istiod',
      'revision=A',
      'env.NODE_NAME=me',
    ]
    const lines = (await refuse(...flags, 'podLabels.k8s-app=other', 'daemonSetLabels.k8s-app=other'))
      .split('\n')
      .map((line) => line.trim())
    expect(lines).toEqual(
      expect.arrayContaining([
        'ambient.enabled: false leaves nothing to do; this agent is for ambient meshes only',
        'cniBinDir: "bin" is not a folder of a node; write its whole path',
        'cniNetnsDir: "/" is not a folder of a node; write its whole path',
        'revision: "A" is not a name of Kubernetes; it takes a-z, 0-9 and dashes between them',
        'xdsAddress: "istiod" is not HOST:PORT',
        'env.NODE_NAME: this is what Kubernetes says of the pod; leave it out',
        'podLabels: k8s-app is how the DaemonSet finds its pods; leave it out',
        'daemonSetLabels: k8s-app is set by this chart; leave it out',
      ]),
    )
  })

  testHelm('the notes say what is not there yet, whom it asks, and which values change nothing', async () => {
    const notes = await readNotes()
    expect(notes).toContain('What is not there yet: this version does not put its CNI plugin onto the nodes.')
    expect(notes).toContain('It asks istiod.istio-system.svc:15012 as istio-system/addressd-node.')
    expect(notes).toContain('  --set xdsTrustedAccounts={istio-system/addressd-node}\n')
    expect(notes).not.toContain('change nothing here')
    const schema = JSON.parse(readFileSync(join(nodeChart, 'values.schema.json'), 'utf8'))
    const ignored = Object.entries<Manifest>(schema.properties)
      .filter(([, property]) => property.$ref === '#/definitions/ignored')
      .map(([name]) => name)
      .sort()
    const flags = [
      ...ignored.map((name) => `${name}.some=thing`),
      'ambient.configDir=x',
      'ambient.enableAmbientDetectionRetry=true',
    ]
    const all = await readNotes(...flags.flatMap((flag) => ['--set', flag]))
    const names = [...ignored, 'ambient.enableAmbientDetectionRetry', 'ambient.configDir']
    expect(all).toContain(`These values of istio-cni's chart change nothing here: ${names.join(', ')}.\n`)
  })
})

/** What the program makes of the chart's flags and environment. Throws when it would not start. */
function readSettings(set: NodeValueSet): { readonly settings: NodeSettings; readonly warnings: readonly string[] } {
  const { args, env } = selectAgent(readNodeGolden(set))
  const pod: Record<string, string> = { NODE_NAME: 'node-1', POD_NAME: 'addressd-node-x', POD_NAMESPACE: namespace }
  return parseSettings({
    table: nodeSettingsTable,
    ignored: istioCniFlags,
    argv: args.slice(1),
    env: {
      KUBERNETES_SERVICE_HOST: '10.96.0.1',
      ...Object.fromEntries(env.map(({ name, value }: Manifest) => [name, value ?? pod[name]])),
    },
    ownPrefix: 'ADDRESSD_',
    check: selectNodeContradictions,
  })
}

describe('what the chart tells the program', () => {
  test.each(nodeValueSets)(
    'with the values "%s" it starts, without a warning, and every name is in the table',
    (set) => {
      expect(readSettings(set).warnings).toEqual([])
      const { command, args, env } = selectAgent(readNodeGolden(set))
      expect([...command, args[0]]).toEqual(['addressd-node', 'run'])
      const table = Object.values<SettingsTable[string]>(nodeSettingsTable).map((setting) => setting.env)
      const known = new Set([...table, 'NODE_OPTIONS']) // which Node.js itself reads
      const names: string[] = env.map(({ name }: Manifest) => name)
      expect(names.filter((name) => !known.has(name))).toEqual([])
      expect(new Set(names).size).toBe(names.length)
    },
  )

  test('values arrive as settings', () => {
    const { enablementSelectors: byDefault } = nodeSettingsTable
    const defaults = readSettings('node-defaults').settings
    expect(defaults).toMatchObject({
      nodeName: 'node-1',
      daemonSet: 'addressd-node',
      excludeNamespaces: ['kube-system'],
      dnsCapture: true,
      ipv6: true,
      nativeNftables: undefined,
      switchToHostNetns: true,
      xdsAddress: 'istiod.istio-system.svc:15012',
      clusterId: 'Kubernetes',
    })
    expect(JSON.parse(defaults.enablementSelectors)).toEqual(JSON.parse(byDefault.default))
    expect(readSettings('node-alone').settings.xdsAddress).toBe('')
    expect(readSettings('node-of-istio-cni').settings).toMatchObject({
      excludeNamespaces: ['kube-system', 'monitoring'],
      dnsCapture: false,
      ipv6: false,
      reconcileOnStartup: false,
      nativeNftables: true,
      revision: 'canary',
      clusterId: 'east',
      xdsAddress: 'istiod-canary.istio-system.svc:15012',
    })
    expect(readSettings('node-all').settings).toMatchObject({
      excludeNamespaces: [],
      switchToHostNetns: false,
      nativeNftables: false,
      ipv6: false,
      systemNamespace: 'mesh',
      xdsAddress: 'addressd.mesh.svc:15012',
      network: 'network-1',
      cacheEntries: 2_000_000,
      logTarget: 'stderr',
    })
  })

  test.each(nodeValueSets)('with the values "%s" what it reads and listens on is there', (set) => {
    const { settings } = readSettings(set)
    const objects = readNodeGolden(set)
    const { ports, volumeMounts, livenessProbe, readinessProbe } = selectAgent(objects)
    expect(ports.map((port: Manifest) => port.containerPort)).toEqual([
      settings.monitoringPort,
      settings.healthAddr?.port,
    ])
    expect([livenessProbe.httpGet, readinessProbe.httpGet]).toEqual([
      { path: '/healthz', port: 'readiness' },
      { path: '/readyz', port: 'readiness' },
    ])
    const folders: string[] = volumeMounts.map((mount: Manifest) => mount.mountPath)
    const wanted = [settings.runFolder, settings.ztunnelSocket, '/host/proc']
    if (settings.xdsAddress !== '') wanted.push(settings.xdsRootFile, settings.tokenFile)
    expect(wanted.filter((path) => !folders.some((folder) => `${path}/`.startsWith(`${folder}/`)))).toEqual([])
    const { volumes } = selectKind(objects, 'DaemonSet').spec.template.spec
    expect(volumes.map((volume: Manifest) => volume.name)).toEqual(volumeMounts.map((mount: Manifest) => mount.name))
    const netns = volumes.find((volume: Manifest) => volume.name === 'host-netns').hostPath.path
    expect(volumeMounts.find((mount: Manifest) => mount.name === 'host-netns')).toEqual({
      name: 'host-netns',
      mountPath: `/host${netns as string}`,
      mountPropagation: 'HostToContainer',
    })
  })
})

describe('what the chart grants', () => {
  test('exactly this may be read and written', () => {
    const rules = readNodeGolden('node-defaults')
      .filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role')
      .flatMap(({ metadata, rules: some }) => some.map((rule: Manifest) => [metadata.namespace ?? '', rule]))
    expect(rules).toEqual([
      ['', { apiGroups: [''], resources: ['pods', 'namespaces'], verbs: ['get', 'list', 'watch'] }],
      ['', { apiGroups: [''], resources: ['nodes'], verbs: ['get'] }],
      ['', { apiGroups: [''], resources: ['pods/status'], verbs: ['patch'] }],
      [namespace, { apiGroups: ['apps'], resources: ['daemonsets'], resourceNames: ['addressd-node'], verbs: ['get'] }],
      [
        namespace,
        { apiGroups: [''], resources: ['configmaps'], resourceNames: ['istio'], verbs: ['get', 'list', 'watch'] },
      ],
    ])
  })

  test('the mesh configuration is that of the revision, where the control plane is', () => {
    const select = (set: NodeValueSet): unknown =>
      readNodeGolden(set)
        .filter(({ kind, metadata }) => kind === 'Role' && metadata.name.endsWith('-mesh'))
        .map(({ metadata, rules }) => [metadata.namespace, rules[0].resourceNames])
    expect(select('node-of-istio-cni')).toEqual([[namespace, ['istio-canary']]])
    expect(select('node-all')).toEqual([['mesh', ['istio']]])
  })

  test('it is not privileged, and has the capabilities that it needs and no more', () => {
    const select = (set: NodeValueSet): Manifest => selectAgent(readNodeGolden(set)).securityContext
    expect(select('node-defaults')).toEqual({
      privileged: false,
      runAsUser: 0,
      runAsGroup: 0,
      runAsNonRoot: false,
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'SYS_ADMIN', 'SYS_PTRACE'] },
      seLinuxOptions: { type: 'spc_t' },
    })
    expect(select('node-all')).toMatchObject({
      capabilities: { add: ['NET_ADMIN', 'SYS_ADMIN', 'SYS_PTRACE', 'NET_RAW'] },
      seLinuxOptions: { type: 'spc_t', level: 's0' },
      appArmorProfile: { type: 'Unconfined' },
    })
  })

  test('others find its pods by the label of istio-cni, and the agent knows them by the name of the DaemonSet', () => {
    const { metadata, spec } = selectKind(readNodeGolden('node-defaults'), 'DaemonSet')
    expect(metadata.name).toBe(readSettings('node-defaults').settings.daemonSet)
    expect(spec.template.metadata.labels).toEqual({
      'app.kubernetes.io/name': 'addressd-node',
      'k8s-app': 'istio-cni-node',
      'istio.io/dataplane-mode': 'none',
      'sidecar.istio.io/inject': 'false',
    })
  })
})
