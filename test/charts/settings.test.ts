// SPDX-License-Identifier: Apache-2.0
// What the chart tells the program, held against the table of its settings, and what it grants against what the program reads.

import { describe, expect, test } from '@jest/globals'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { parseSettings, type SettingsTable } from '../../src/base/settings.js'
import { kinds } from '../../src/kube/inputs.js'
import { formatMeshConfigName } from '../../src/kube/mesh-config.js'
import { resourceTypes } from '../../src/kube/resources.js'
import { istiodFlags } from '../../src/main/istiod-flags.js'
import { selectContradictions, settingsTable, type Settings } from '../../src/main/settings-table.js'
import { readGolden, selectContainer, selectKind, valueSets, type Manifest, type ValueSet } from './golden.js'

/** Read by Node.js itself. */
const namesOfNode = ['NODE_OPTIONS']

/** What the program makes of the chart's flags and environment, as a pod of this name sees them. Throws when it would not start. */
function readSettings(set: ValueSet): { readonly settings: Settings; readonly warnings: readonly string[] } {
  const { args, env } = selectContainer(readGolden(set))
  const pod: Record<string, string> = {
    POD_NAME: 'addressd-1',
    POD_NAMESPACE: 'istio-system',
    CLUSTER_ID: 'from-a-map',
  }
  const pairs = env.map(({ name, value }: Manifest) => [name, value ?? pod[name]])
  return parseSettings({
    table: settingsTable,
    ignored: istiodFlags,
    argv: args.slice(1),
    env: { KUBERNETES_SERVICE_HOST: '10.96.0.1', ...Object.fromEntries(pairs) },
    ownPrefix: 'ADDRESSD_',
    check: selectContradictions,
  })
}

describe('what the chart tells the program', () => {
  test.each(valueSets)('with the values "%s" it starts, without a warning', (set) => {
    expect(readSettings(set).warnings).toEqual([])
    expect(selectContainer(readGolden(set)).args[0]).toBe('serve')
  })

  test.each(valueSets)('with the values "%s" every environment name is in the table, once', (set) => {
    const table = Object.values<SettingsTable[string]>(settingsTable).map(({ env }) => env)
    const known = new Set([...table, ...namesOfNode])
    const names: string[] = selectContainer(readGolden(set)).env.map(({ name }: Manifest) => name)
    expect(names.filter((name) => !known.has(name))).toEqual([])
    expect(new Set(names).size).toBe(names.length)
  })

  test('values arrive as settings', () => {
    expect(readSettings('defaults').settings).toMatchObject({
      clusterId: 'Kubernetes',
      revision: 'default',
      systemNamespace: 'istio-system',
      podName: 'addressd-1',
      domain: 'cluster.local',
      enableStatus: true,
      grpcAddr: { host: '127.0.0.1', port: 15010 },
    })
    expect(readSettings('of-istiod').settings).toMatchObject({
      clusterId: 'east',
      revision: 'canary',
      domain: 'cluster.example',
      enableStatus: false,
      debounceAfterMs: 20,
      maxReceiveBytes: 134_217_728,
      maxConnectionAgeMs: 900_000,
    })
    expect(readSettings('all').settings).toMatchObject({
      clusterId: 'from-a-map',
      shutdownDurationMs: 45_000,
      debounceMaxMs: 2_000,
      logTarget: 'stderr',
    })
  })

  test.each(valueSets)('with the values "%s" every port that is published is one the program listens on', (set) => {
    const { settings } = readSettings(set)
    const listened = [settings.secureGrpcAddr, settings.monitoringAddr, settings.httpAddr].map((at) => at?.port)
    // Loopback is not reached from outside the pod.
    if (settings.grpcAddr?.host !== '127.0.0.1') listened.push(settings.grpcAddr?.port)
    const objects = readGolden(set)
    const ports: readonly Manifest[] = selectContainer(objects).ports
    expect(ports.map((port) => port.containerPort).sort()).toEqual(listened.sort())
    const named = new Map(ports.map((port) => [port.name, port.containerPort]))
    const published: readonly Manifest[] = selectKind(objects, 'Service').spec.ports
    expect(published.map((port) => [port.port, named.get(port.targetPort)])).toEqual(
      published.map((port) => [port.port, port.port]),
    )
  })

  test.each(valueSets)('with the values "%s" a replica has longer to end than it takes for it', (set) => {
    const { terminationGracePeriodSeconds: seconds } = selectKind(readGolden(set), 'Deployment').spec.template.spec
    expect(seconds * 1000).toBeGreaterThan(readSettings(set).settings.shutdownDurationMs)
  })

  test.each(valueSets)('with the values "%s" the mesh configuration made is the one read', (set) => {
    const name = formatMeshConfigName(readSettings(set).settings.revision)
    const objects = readGolden(set)
    const made = objects.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata }) => metadata.name)
    expect(made).toEqual(set === 'beside-istiod' ? [] : [name])
    expect(selectKind(objects, 'Role').rules[0]).toMatchObject({ resources: ['configmaps'], resourceNames: [name] })
  })

  test('the mesh configuration says what meshConfig says, with the root namespace filled in', () => {
    const read = (set: ValueSet): unknown => parse(selectKind(readGolden(set), 'ConfigMap').data.mesh)
    expect(read('defaults')).toEqual({ rootNamespace: 'istio-system' })
    expect(read('single')).toEqual({ trustDomain: 'small.example', rootNamespace: 'policies' })
    expect(read('of-istiod')).toEqual({
      accessLogFile: '/dev/stdout',
      discoverySelectors: [{ matchLabels: { mesh: 'in' } }],
      rootNamespace: 'istio-system',
      trustDomain: 'mesh.example',
    })
  })
})

describe('what the chart grants', () => {
  /** `group/resource` that may be listed and watched without a name. */
  function selectRead(rules: readonly Manifest[]): string[] {
    return rules
      .filter(({ verbs, resourceNames }) => verbs.includes('list') && resourceNames === undefined)
      .flatMap(({ apiGroups, resources, verbs }) => {
        expect(verbs).toEqual(['list', 'watch'])
        return resources.map((resource: string) => `${apiGroups[0] as string}/${resource}`)
      })
      .sort()
  }

  test.each(valueSets)('with the values "%s" exactly the kinds that the program reads may be read', (set) => {
    const wanted = kinds
      .filter((kind) => kind !== 'ConfigMap')
      .map((kind) => `${resourceTypes[kind].group}/${resourceTypes[kind].plural}`)
    expect(selectRead(selectKind(readGolden(set), 'ClusterRole').rules)).toEqual(wanted.sort())
    expect(selectRead(selectKind(readGolden(set), 'Role').rules)).toEqual([])
  })

  test('no rule has a wildcard, and nothing may be deleted', () => {
    const rules = valueSets.flatMap((set) =>
      ['ClusterRole', 'Role'].flatMap((kind) => selectKind(readGolden(set), kind).rules as readonly Manifest[]),
    )
    const words = rules.flatMap(({ apiGroups, resources, verbs }) => [...apiGroups, ...resources, ...verbs])
    expect(
      words.filter((word) => ['*', 'delete', 'deletecollection', 'escalate', 'bind', 'impersonate'].includes(word)),
    ).toEqual([])
  })

  test('rights to write follow the values: none of them beside istiod, nodes only for the taint', () => {
    const patched = (set: ValueSet): string[] => [
      ...new Set(
        (selectKind(readGolden(set), 'ClusterRole').rules as readonly Manifest[])
          .filter(({ verbs, resourceNames }) => verbs.includes('patch') && resourceNames === undefined)
          .flatMap(({ resources }) => resources as string[]),
      ),
    ]
    const conditions = [
      'services/status',
      'serviceentries/status',
      'workloadentries/status',
      'authorizationpolicies/status',
    ]
    expect(patched('defaults')).toEqual(conditions)
    expect(patched('beside-istiod')).toEqual([])
    expect(patched('of-istiod')).toEqual([...conditions, 'nodes'])
  })
})

describe('the image', () => {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const recipe = readFileSync(`${root}Containerfile`, 'utf8')

  test('runs as the user that the chart sets, and is of the version that the chart asks for', () => {
    const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { version: string }
    const objects = readGolden('defaults')
    const { runAsUser, runAsGroup } = selectKind(objects, 'Deployment').spec.template.spec.securityContext
    expect(recipe).toContain(`\nUSER ${runAsUser as number}:${runAsGroup as number}\n`)
    expect(selectContainer(objects).image).toBe(`addressd:${version}`)
    expect(recipe).toContain(`-t addressd:${version} `)
  })

  test('is made of files that are there', () => {
    const copied = [...recipe.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, names]) => names!.split(' '))
    expect(copied.filter((name) => !existsSync(root + name))).toEqual([])
    expect(copied).toEqual(expect.arrayContaining(['package-lock.json', 'src', 'bin', 'proto']))
  })
})
