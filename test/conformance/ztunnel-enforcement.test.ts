// SPDX-License-Identifier: Apache-2.0
// What a ztunnel let through under recorded policies, against a model of it that holds ours: does what we send mean what was written?
// Where the recorded control plane sent something else than was meant, what was meant counts.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { judgeConnection } from '../support/ztunnel-verdict.js'
import { namespace, pod } from '../address/objects.js'
import { Room, type KubeObject } from '../address/room.js'
import { casesFolder } from './folder.js'

interface Row {
  readonly case: string
  readonly rules: readonly string[]
  readonly policies: readonly {
    readonly kind: string
    readonly name: string
    readonly namespace: string
    readonly annotations?: Readonly<Record<string, string>>
    readonly spec: unknown
  }[]
  readonly result: Readonly<Record<string, 'allow' | 'deny'>>
  readonly deviation?: { readonly expect: Row['result'] }
}

const folder = casesFolder('ztunnel')
const path = folder === undefined ? undefined : join(folder, 'enforcement.json')
const rows =
  path === undefined || !existsSync(path)
    ? []
    : (JSON.parse(readFileSync(path, 'utf8')) as { rows: readonly Row[] }).rows

function toObject({ kind, name, namespace: ns, annotations, spec }: Row['policies'][number], at: number): KubeObject {
  const creationTimestamp = new Date(Date.UTC(2026, 0, 1, 0, 0, at)).toISOString()
  const metadata = { name, namespace: ns, creationTimestamp, ...(annotations && { annotations }) }
  return { apiVersion: 'security.istio.io/v1', kind, metadata, spec }
}

describe('what ztunnel lets through', () => {
  if (rows.length === 0) {
    console.warn('no ztunnel/enforcement.json among the recorded cases: nothing to compare')
    test.skip('enforcement.json is missing', () => undefined)
  }
  test.each(rows.map((row) => [row.case, row] as const))('%s', (_, { policies, result, deviation }) => {
    const room = new Room({ dryRunPolicies: true })
    const web = pod('web', { ns: 'a', ips: ['10.254.77.2'], labels: { app: 'web' } })
    room.apply(namespace('a'), namespace('b'), namespace('istio-system'), web, ...policies.map(toObject))
    const served = new Map([...room.policies.all()].map(({ name }) => [name, room.policy(name)!]))
    const { needs: listed = [] } = room.source.get('Kubernetes//Pod/a/web')!
    const judge = (port: string): string =>
      judgeConnection(
        { principal: '', sourceIp: '10.254.77.1', destinationIp: '10.254.77.2', port: Number(port) },
        { namespace: 'a', listed },
        served,
      )
    const expected = deviation?.expect ?? result
    expect(Object.fromEntries(Object.keys(expected).map((port) => [port, judge(port)]))).toEqual(expected)
  })
})
