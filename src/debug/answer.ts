// SPDX-License-Identifier: Apache-2.0
// The whole answer to one question, as of this moment: what was found, decoded, with members, memberships and reasons.
// For the Inspect service. Reads everything late and keeps nothing.

import { toAddressJson } from '../wire/address-json.js'
import { toServiceRow, toWorkloadRow, type WaypointNamer } from '../wire/inspect-rows.js'
import type { FindingRow, FormName, WhatIsAnswer } from '../wire/inspect.js'
import { ADDRESS_TYPE } from '../wire/messages.js'
import type { Question } from '../wire/question.js'
import { toStruct } from '../wire/struct.js'
import type { ResourceSource, ResourceStore } from '../xds/source.js'
import type { Directory } from './directory.js'
import type { Explainer } from './explainer.js'
import { selectFound, type Found } from './finder.js'
import { decodePolicy, toPolicyRow } from './policy.js'
import { createWaypointNamer, decodeMember, decodeResource, toMembershipRows } from './rows.js'

export interface AnswerPlaces {
  readonly store: ResourceStore
  readonly directory: Directory
  readonly explainer?: Explainer | undefined
}

/** Answers `text`, which was parsed to `question`. `found` is empty when nobody has it. */
export function createAnswer(text: string, question: Question, places: AnswerPlaces): WhatIsAnswer {
  const source = places.store.source(ADDRESS_TYPE)
  const form = formNames[question.form]
  if (source === undefined) return { question: text, form, found: [] }
  const nameWaypoint = createWaypointNamer(source)
  const found = selectFound(question, places.store, places.directory)
  return {
    question: text,
    form,
    found: [
      ...found.flatMap((one) => toFinding(one, { source, nameWaypoint, explainer: places.explainer })),
      ...toUnsentPolicy(question, places.explainer),
    ],
  }
}

/** A policy that exists and that no proxy is told of: its reasons are the answer. */
function toUnsentPolicy(question: Question, explainer: Explainer | undefined): FindingRow[] {
  if (question.form !== 'name') return []
  const whole = `${question.namespace}/${question.name}`
  const policy = explainer?.explainPolicy?.(whole)
  if (policy === undefined || policy.isSent) return []
  const { namespace, name, action, scope, why } = policy
  const row = { namespace, name, action, scope, resource: null }
  return [{ by: `name ${whole}`, why, version: '', aliases: [], policy: row, resource: null }]
}

const formNames: Readonly<Record<Question['form'], FormName>> = {
  ip: 'FORM_IP',
  range: 'FORM_RANGE',
  key: 'FORM_KEY',
  hostname: 'FORM_HOSTNAME',
  name: 'FORM_NAME',
  uid: 'FORM_UID',
}

interface Reading {
  readonly source: ResourceSource
  readonly nameWaypoint: WaypointNamer
  readonly explainer: Explainer | undefined
}

function toFinding(found: Found, reading: Reading): FindingRow[] {
  const { resource, by } = found
  const { source, nameWaypoint, explainer } = reading
  const common = {
    by,
    why: explain(found, explainer),
    version: resource.version,
    aliases: resource.aliases,
  }
  if (found.kind === 'policy') {
    const policy = decodePolicy(resource)
    return policy === undefined ? [] : [{ ...common, policy: toPolicyRow(policy), resource: toStruct(policy) }]
  }
  const decoded = decodeResource(resource)
  if (decoded === undefined) return []
  const whole = toStruct(toAddressJson(decoded, { ip: 'text' }))
  if (decoded.kind === 'workload') {
    const row = toWorkloadRow(decoded.workload, nameWaypoint)
    return [{ ...common, workload: { ...row, services: toMembershipRows(row, source) }, resource: whole }]
  }
  const members = source.members(resource.name).flatMap((member) => decodeMember(member) ?? [])
  const rows = members.map((member) => toWorkloadRow(member, nameWaypoint)).sort(byPlace)
  return [
    {
      ...common,
      service: { ...toServiceRow(decoded.service, members, nameWaypoint), members: rows },
      resource: whole,
    },
  ]
}

function explain({ kind, resource }: Found, explainer: Explainer | undefined): readonly string[] {
  const reasons = kind === 'policy' ? explainer?.explainPolicy?.(resource.name) : explainer?.explain(resource.name)
  return reasons?.why ?? []
}

interface Named {
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

function byPlace(a: Named, b: Named): number {
  return compare(a.namespace, b.namespace) || compare(a.name, b.name) || compare(a.uid, b.uid)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
