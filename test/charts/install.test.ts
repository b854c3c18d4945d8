// SPDX-License-Identifier: Apache-2.0
// The life of a release on a real API server: install, upgrade, uninstall, install again; and what outlives it.

import { afterAll, expect } from '@jest/globals'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { findHelm, type Helm } from '../support/helm.js'
import { testWith } from '../support/optional.js'
import { chart, readManifests, toValueFlags, type Manifest } from './golden.js'
import { toObjectPath } from './paths.js'

const timeoutMs = 180_000
const foundHelm = await findHelm()
const helm = foundHelm as Helm
const started = typeof foundHelm === 'function' ? await startApiServer() : foundHelm
const testRelease =
  'unavailable' in started && typeof foundHelm === 'function'
    ? testWith('api-server', started.unavailable)
    : testWith('helm', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const namespace = 'mesh'

afterAll(async () => {
  if (!('unavailable' in started)) await api.stop()
}, apiServerStartTimeoutMs)

async function run(command: string, ...flags: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await helm(
    ...[command, 'addressd', '--kubeconfig', api.kubeconfigPath, '--namespace', namespace, ...flags],
  )
  if (code !== 0) throw new Error(`helm ${command}: ${stderr}`)
  return stdout
}

/** The objects of the release as the values make them. */
async function render(...flags: readonly string[]): Promise<readonly Manifest[]> {
  const { stdout } = await helm('template', 'addressd', chart, '--namespace', namespace, ...flags)
  return readManifests(stdout)
}

/** Which of them the API server has: `kind/name`. */
async function selectPresent(objects: readonly Manifest[]): Promise<string[]> {
  const present: string[] = []
  for (const object of objects) {
    const answer = await api.request('GET', toObjectPath(object))
    // A definition goes only when its controller has let it; it is as good as gone.
    const isThere = answer.status === 200 && answer.json().metadata.deletionTimestamp === undefined
    if (isThere) present.push(toName(object))
  }
  return present
}

const toName = ({ kind, metadata }: Manifest): string => `${kind as string}/${metadata.name as string}`

testRelease(
  'a release comes, changes and goes; the mesh configuration and the definitions outlive it and are taken up by the next',
  async () => {
    const withDefinitions = await render('--set', 'installCRDs=true')
    await run('install', chart, '--create-namespace', '--set', 'installCRDs=true')
    expect(await selectPresent(withDefinitions)).toEqual(withDefinitions.map(toName))

    const lasting = withDefinitions.filter(({ kind }) => kind === 'CustomResourceDefinition' || kind === 'ConfigMap')
    expect(lasting).toHaveLength(7)
    const all = await render(...toValueFlags('all'), '--set', 'configMap=false')
    await run('upgrade', chart, ...toValueFlags('all'), '--set', 'configMap=false')
    expect(await selectPresent(all)).toEqual(all.map(toName))
    expect(await selectPresent(lasting)).toEqual(lasting.map(toName))

    await run('uninstall')
    expect(await selectPresent([...all, ...withDefinitions])).toEqual(lasting.map(toName))

    const plain = await render()
    await run('install', chart)
    expect(await selectPresent(plain)).toEqual(plain.map(toName))
  },
  timeoutMs,
)

testRelease(
  'a mesh configuration that somebody else made is not overwritten: installing over it is refused, and it can be left alone',
  async () => {
    const own = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'istio-other', namespace },
      data: { mesh: 'a: b' },
    }
    await api.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
    await api.request('POST', `/api/v1/namespaces/${namespace}/configmaps`, own)
    const at = ['--kubeconfig', api.kubeconfigPath, '--namespace', namespace, '--set', 'revision=other']
    const refused = await helm('install', 'other', chart, ...at)
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('ConfigMap "istio-other"')])
    expect((await helm('install', 'other', chart, ...at, '--set', 'configMap=false')).code).toBe(0)
    expect((await api.request('GET', toObjectPath(own))).json()).toMatchObject({ data: own.data })
  },
  timeoutMs,
)
