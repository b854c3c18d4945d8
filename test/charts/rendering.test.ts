// SPDX-License-Identifier: Apache-2.0
// The chart under a real helm: what it renders to, what it refuses and in which words, what it leaves out.

import { describe, expect } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readDefinitions } from '../support/crds.js'
import { findHelm, type Helm } from '../support/helm.js'
import { testWith } from '../support/optional.js'
import {
  chart,
  namespace,
  readManifests,
  selectContainer,
  selectKind,
  toGoldenPath,
  toValueFlags,
  valueSets,
  type Manifest,
} from './golden.js'

const found = await findHelm()
const helm = found as Helm
const testHelm = testWith('helm', typeof found === 'function' ? undefined : found.unavailable)
const release = ['addressd', chart, '--namespace', namespace] as const

async function render(...flags: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await helm('template', ...release, ...flags)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
}

/** What helm says when it refuses; its first lines only frame it. */
async function refuse(...flags: readonly string[]): Promise<string[]> {
  const { code, stdout, stderr } = await helm('template', ...release, ...flags)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  return stderr
    .split('\n')
    .slice(1)
    .map((line) => line.trim())
    .filter((line) => line !== '' && line !== 'addressd:' && !line.startsWith('Use --debug'))
}

async function readNotes(...flags: readonly string[]): Promise<string> {
  const { code, stdout } = await helm('install', ...release, '--dry-run=client', ...flags)
  expect(code).toBe(0)
  return stdout.slice(stdout.indexOf('NOTES:\n') + 'NOTES:\n'.length)
}

const isDefinition = (object: Manifest): boolean => object.kind === 'CustomResourceDefinition'

describe('rendering', () => {
  for (const set of valueSets) {
    testHelm(`with the values "${set}" the chart passes lint and renders to its golden file`, async () => {
      const lint = await helm('lint', '--strict', chart, '--namespace', namespace, ...toValueFlags(set))
      expect(lint.stdout).toContain('1 chart(s) linted, 0 chart(s) failed')
      const text = await render(...toValueFlags(set))
      if (process.env['TEST_WRITE_GOLDEN'] === '1') writeFileSync(toGoldenPath(set), text)
      expect(text).toBe(readFileSync(toGoldenPath(set), 'utf8'))
    })
  }

  testHelm('definitions come when asked for only, as they stand in crds, and stay when the release goes', async () => {
    expect(readManifests(await render('--include-crds')).filter(isDefinition)).toEqual([])
    const rendered = readManifests(await render('--include-crds', '--set', 'installCRDs=true')).filter(isDefinition)
    const keep = { 'helm.sh/resource-policy': 'keep' }
    const wanted = (readDefinitions(join(chart, 'crds')) as readonly Manifest[]).map((definition) => ({
      ...definition,
      metadata: { ...definition.metadata, annotations: { ...definition.metadata.annotations, ...keep } },
    }))
    const byName = (a: Manifest, b: Manifest): number => (a.metadata.name < b.metadata.name ? -1 : 1)
    expect([...rendered].sort(byName)).toEqual(wanted.sort(byName))
    expect(wanted).toHaveLength(6)
  })

  testHelm(
    'a package of the chart carries the definitions once, where helm does not install them by itself',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'addressd-chart-'))
      try {
        expect((await helm('package', chart, '--destination', folder)).code).toBe(0)
        const names = execFileSync('tar', ['-tzf', join(folder, 'addressd-0.1.0.tgz')], { encoding: 'utf8' }).split(
          '\n',
        )
        const definitions = names.filter((name) => /\/(crds|definitions)\//.test(name)).sort()
        expect(definitions).toEqual(
          ['authorizationpolicy', 'gateway', 'gatewayclass', 'peerauthentication', 'serviceentry', 'workloadentry'].map(
            (name) => `addressd/definitions/${name}.yaml`,
          ),
        )
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
  )

  testHelm('the environment is what the values say, also where they say false or a large number', async () => {
    const flags = ['env.PILOT_ENABLE_IP_AUTOALLOCATE=false', 'env.ADDRESSD_MAX_NAMES=3000000', 'env.SHARE=0.25']
    const container = selectContainer(readManifests(await render(...flags.flatMap((flag) => ['--set', flag]))))
    const values = new Map(container.env.map(({ name, value }: Manifest) => [name, value]))
    expect(['PILOT_ENABLE_IP_AUTOALLOCATE', 'ADDRESSD_MAX_NAMES', 'SHARE'].map((name) => values.get(name))).toEqual([
      'false',
      '3000000',
      '0.25',
    ])
  })

  testHelm('the revision "default" is no name of its own', async () => {
    const plain = await render()
    expect(await render('--set', 'revision=default')).toBe(plain)
  })

  testHelm('two releases of two revisions share a namespace, but no object and no pod', async () => {
    const toNames = (text: string): string[] =>
      readManifests(text).map(({ kind, metadata }) => `${kind as string}/${metadata.name as string}`)
    const other = await helm('template', 'canary', chart, '--namespace', namespace, '--set', 'revision=canary')
    const first = await render()
    expect(toNames(first).filter((name) => toNames(other.stdout).includes(name))).toEqual([])
    const { selector } = selectKind(readManifests(first), 'Service').spec
    const { labels } = selectKind(readManifests(other.stdout), 'Deployment').spec.template.metadata
    expect(Object.entries(selector).every(([name, value]) => labels[name] === value)).toBe(false)
  })
})

describe('refusing', () => {
  testHelm('an unknown name and a wrong type are named with their place', async () => {
    const flags = ['replicaCount=two', 'pilot.env.A=b', 'ipFamilies={IPv5}', 'taint.enable=true']
    const problems = await refuse(...flags.flatMap((flag) => ['--set', flag]))
    expect(problems.sort()).toEqual([
      "- at '': additional properties 'pilot' not allowed",
      "- at '/ipFamilies/0': value must be one of 'IPv4', 'IPv6'",
      "- at '/replicaCount': got string, want integer",
      "- at '/taint': additional properties 'enable' not allowed",
    ])
  })

  testHelm('what a type cannot say is said in a sentence, all of it at once', async () => {
    const flags = [
      'serviceName=Mesh',
      'revision=a.b',
      'xdsTrustedAccounts={reader}',
      'rollingMaxSurge=some',
      'global.multiCluster.clusterName=a/b',
      'env.POD_NAME=me',
      'podLabels.app\\.kubernetes\\.io/name=istiod',
    ]
    const long = ['--set-string', 'keepaliveMaxServerConnectionAge=30']
    expect(await refuse(...long, ...flags.flatMap((flag) => ['--set', flag]))).toEqual([
      'revision: "a.b" is not a name of Kubernetes; it takes a-z, 0-9 and dashes between them, at most 63',
      'serviceName: "Mesh" is not a name of Kubernetes; it takes a-z, 0-9 and dashes between them, at most 63',
      'xdsTrustedAccounts: "reader" is not an account; write it as NAMESPACE/NAME',
      'keepaliveMaxServerConnectionAge: "30" is not a duration; write it like 30m or 1h30m',
      'rollingMaxSurge: "some" is neither a number nor a percentage; write it like 1 or 25%',
      'global.multiCluster.clusterName: "a/b" has a slash, which names of workloads cannot hold',
      'env.POD_NAME: this is what Kubernetes says of the pod; leave it out',
      'podLabels: app.kubernetes.io/name is how the Service finds the pods; leave it out',
    ])
  })
})

describe('the notes', () => {
  testHelm('say what to ask next, and no more when nothing is unusual', async () => {
    expect(await readNotes()).toBe(`addressd answers proxies at istiod.istio-system.svc:15012.

Is it ready?
  kubectl -n istio-system rollout status deploy/addressd
What is 10.0.0.1? What is web.shop.svc.cluster.local?
  kubectl -n istio-system exec deploy/addressd -- addressctl whatis 10.0.0.1
  kubectl -n istio-system exec deploy/addressd -- addressctl whatis web.shop.svc.cluster.local
What is there, and which proxies are connected?
  kubectl -n istio-system exec deploy/addressd -- addressctl workloads
  kubectl -n istio-system exec deploy/addressd -- addressctl services
  kubectl -n istio-system exec deploy/addressd -- addressctl clients
`)
  })

  testHelm('tell where to send ztunnel, and whose the mesh configuration is', async () => {
    const notes = await readNotes(...toValueFlags('beside-istiod'))
    const at = 'addressd.istio-system.svc:15012'
    expect(notes).toContain(`  --set xdsAddress=${at} --set caAddress=${at}\n`)
    expect(notes).toContain('The mesh configuration is what ConfigMap istio in istio-system says.')
  })

  testHelm('name every value of istiod that changes nothing, and the chart takes all of them', async () => {
    const schema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'))
    const ignored = Object.entries<Manifest>(schema.properties)
      .filter(([, property]) => property.$ref !== undefined)
      .map(([name]) => name)
      .sort()
    const notes = await readNotes(...ignored.flatMap((name) => ['--set', `${name}.some=thing`]))
    expect(notes).toContain(`These values of istiod's chart change nothing here: ${ignored.join(', ')}.\n`)
  })
})
