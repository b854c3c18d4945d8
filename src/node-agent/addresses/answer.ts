// SPDX-License-Identifier: Apache-2.0
// What is held as the answer to one question, in the words in which the control plane itself answers. For the local socket. Reads at the last moment and keeps nothing.

import { toAddressJson } from '../../wire/address-json.js'
import { formatDestination, formatServiceAddress, toServiceRow, toWorkloadRow } from '../../wire/inspect-rows.js'
import type { WaypointNamer } from '../../wire/inspect-rows.js'
import type { FindingRow, FormName, MembershipRow, WhatIsAnswer, WorkloadRow } from '../../wire/inspect.js'
import type { Question } from '../../wire/question.js'
import { toStruct } from '../../wire/struct.js'
import type { Standing } from './book.js'
import { selectFound, type Found, type Key } from './finder.js'
import type { Held } from './held.js'

/** The answer to a question as far as this node knows it. */
export interface Answered {
  readonly standing: Standing
  readonly answer: WhatIsAnswer
  /** Since the control plane was lost, 0 while it is there; undefined when it was never reached. */
  readonly ageMs: number | undefined
  /** When it was last known to be there, wall time; undefined when it never was. */
  readonly lastSeenMs: number | undefined
}

/** Answers `text`, which was parsed to `question` and led to `keys`. `found` is empty when nobody has it. */
export function createNodeAnswer(text: string, question: Question, keys: readonly Key[], held: Held): WhatIsAnswer {
  const form: FormName = `FORM_${question.form.toUpperCase() as Uppercase<Question['form']>}`
  const nameWaypoint = createWaypointNamer(held)
  return { question: text, form, found: selectFound(keys, held).map((one) => toFinding(one, held, nameWaypoint)) }
}

function toFinding({ held: one, by }: Found, held: Held, nameWaypoint: WaypointNamer): FindingRow {
  const { decoded, version, aliases } = one
  const common = { by, why: [], version, aliases, resource: toStruct(toAddressJson(decoded, { ip: 'text' })) }
  if (decoded.kind === 'workload') {
    const row = toWorkloadRow(decoded.workload, nameWaypoint)
    return { ...common, workload: { ...row, services: row.services.map((one) => withAddresses(one, held)) } }
  }
  const members = held.members(one.name).map((member) => member.decoded.workload)
  const rows = members.map((member) => toWorkloadRow(member, nameWaypoint)).sort(byPlace)
  return { ...common, service: { ...toServiceRow(decoded.service, members, nameWaypoint), members: rows } }
}

/** A service that was never looked up has no addresses here. */
function withAddresses(membership: MembershipRow, held: Held): MembershipRow {
  const decoded = held.get(membership.service)?.decoded
  if (decoded?.kind !== 'service') return membership
  return { ...membership, addresses: decoded.service.addresses.map(formatServiceAddress) }
}

function createWaypointNamer(held: Held): WaypointNamer {
  return (gateway) => {
    if (gateway === undefined) return null
    const key = formatDestination(gateway)
    const service = held.matches(key).find(({ decoded }) => decoded.kind === 'service')?.decoded
    return { key, name: service?.kind === 'service' ? service.service.name : '' }
  }
}

function byPlace(a: WorkloadRow, b: WorkloadRow): number {
  return compare(a.namespace, b.namespace) || compare(a.name, b.name) || compare(a.uid, b.uid)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
