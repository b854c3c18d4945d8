// SPDX-License-Identifier: Apache-2.0
// What a ztunnel rejects is never served. What it rejects was recorded from a real one.

import { readFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { ResourceSource } from '../../src/xds/source.js'
import { bodyOf, Room } from '../address/room.js'
import { casesFolder } from './folder.js'
import { readCases } from './recorded.js'
import { selectRejection } from './rejections.js'

const folder = casesFolder('ztunnel')
const file = folder === undefined ? undefined : join(folder, 'nacks.json')

interface Row {
  readonly case: string
  readonly type: 'Address' | 'Authorization'
  /** Of one resource; absent where a whole response was odd. */
  readonly hex?: string
  readonly response?: unknown
  readonly nack?: string
}

const rows: readonly Row[] =
  file !== undefined && existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { rows: Row[] }).rows : []
const resources = rows.filter(({ hex, response }) => hex !== undefined && response === undefined)

describe('odd resources', () => {
  if (resources.length === 0) {
    process.stderr.write('SKIPPED: recorded-rejections: there is no ztunnel/nacks.json among the recorded cases\n')
    test.skip('nacks.json is missing', () => undefined)
  }
  for (const row of resources) {
    test(`${row.case}: ${row.nack === undefined ? 'taken' : 'rejected'}`, () => {
      const rejection = selectRejection(row.type, Buffer.from(row.hex ?? '', 'hex'))
      expect({ rejected: rejection !== undefined, rejection }).toEqual({ rejected: row.nack !== undefined, rejection })
    })
  }
})

const cases = ['address', 'authorization'].flatMap((kind) => {
  const found = casesFolder(kind)
  return found === undefined ? [] : readCases(found).filter(({ skipReason }) => skipReason === undefined)
})

describe('what is served', () => {
  test('is taken, after every step of every recorded case', () => {
    const rejected: string[] = []
    let judged = 0
    const judge = (name: string, type: Row['type'], source: ResourceSource): void => {
      for (const resource of source.all()) {
        judged++
        const rejection = selectRejection(type, bodyOf(resource))
        if (rejection !== undefined) rejected.push(`${name}: ${resource.name}: ${rejection}`)
      }
    }
    for (const { name, options, steps } of cases) {
      const room = new Room(options)
      for (const step of steps) {
        room.delete(step.delete)
        room.set(step.upsert)
        room.commit()
        judge(`${name} ${step.step}`, 'Address', room.source)
        judge(`${name} ${step.step}`, 'Authorization', room.policies)
      }
    }
    expect(rejected).toEqual([])
    expect(judged > 0).toBe(cases.length > 0)
  })
})
