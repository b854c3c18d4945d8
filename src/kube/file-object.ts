// SPDX-License-Identifier: Apache-2.0
// One item of a manifest -> the row of a kind that is read, or what is wrong with it. For the file source. Refuses what an API server would
// refuse of an object's name and version; types are the projection's affair.

import { InvalidInput } from '../base/errors.js'
import { completeObject } from './defaults.js'
import { findFalseAddresses } from './false-addresses.js'
import type { ManifestItem } from './file-manifest.js'
import { isJsonObject } from './part.js'
import { formatSubject, projectObject } from './project.js'
import { clusterKey, objectKey, type Kind, type RecordByKind } from './records.js'
import { parseKind, resourceTypes } from './resources.js'

/** Where the objects are read into. */
export interface Place {
  readonly cluster: string
  /** The one ConfigMap that is read. */
  readonly meshConfig: { readonly namespace: string; readonly name: string }
}

/** Which object an item defines. `key` is the key of its row. */
export interface Identity {
  readonly kind: Kind
  readonly key: string
  readonly subject: string
}

export type Reading =
  | { readonly type: 'other'; readonly kind: string }
  | {
      readonly type: 'good'
      readonly identity: Identity
      readonly record: RecordByKind[Kind]
      readonly notices: readonly string[]
      /** What stands where an address is due and is none. */
      readonly falseAddresses: string | undefined
    }
  /** Without an identity it cannot be told which object was meant; `kind` is set when at least that is known. */
  | {
      readonly type: 'bad'
      readonly identity: Identity | undefined
      readonly kind: Kind | undefined
      readonly subject: string | undefined
      readonly reason: string
    }

const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

function isLegalName(kind: Kind, name: string): boolean {
  return kind === 'Namespace' || kind === 'Service'
    ? name.length <= 63 && label.test(name)
    : name.length <= 253 && subdomain.test(name)
}

/** Judges and projects one item. Never throws for what the item holds. */
export function readItem(item: ManifestItem, place: Place): Reading {
  const { value } = item
  const nameless = (reason: string): Reading => ({
    type: 'bad',
    identity: undefined,
    kind: undefined,
    subject: undefined,
    reason,
  })
  if (!isJsonObject(value)) return nameless('a manifest must be an object with apiVersion, kind and metadata')
  const { apiVersion, kind: written } = value
  if (typeof written !== 'string' || written === '') return nameless('it has no kind, so it is no Kubernetes object')
  if (typeof apiVersion !== 'string' || apiVersion === '')
    return nameless(`this ${JSON.stringify(written)} has no apiVersion`)
  const kind = parseKind(apiVersion, written)
  if (kind === undefined) return { type: 'other', kind: `${apiVersion} ${written}` }
  return readKnown(kind, apiVersion, value, place)
}

function readKnown(kind: Kind, apiVersion: string, value: Readonly<Record<string, unknown>>, place: Place): Reading {
  const { object, notices } = completeObject(kind, value)
  const subject = formatSubject(kind, object)
  const { identity, reason } = identify(kind, object, subject, place.cluster)
  if (identity === undefined) return { type: 'bad', identity, kind, subject, reason }
  if (
    kind === 'ConfigMap' &&
    identity.key !== objectKey(place.cluster, place.meshConfig.namespace, place.meshConfig.name)
  ) {
    return { type: 'other', kind: subject }
  }
  const { versions } = resourceTypes[kind]
  const version = apiVersion.slice(apiVersion.indexOf('/') + 1)
  if (!versions.includes(version)) {
    return {
      type: 'bad',
      identity,
      kind,
      subject,
      reason: `${kind} is read in version ${versions.join(', ')}, not in ${version}`,
    }
  }
  try {
    const { record } = projectObject(kind, object, place.cluster)
    return { type: 'good', identity, record, notices, falseAddresses: findFalseAddresses(kind, record) }
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return { type: 'bad', identity, kind, subject, reason: error.message }
  }
}

const isAbsent = (value: unknown): boolean => value === undefined || value === null

interface Identified {
  readonly identity: Identity | undefined
  readonly reason: string
}

function identify(kind: Kind, object: Readonly<Record<string, unknown>>, subject: string, cluster: string): Identified {
  const none = (reason: string): Identified => ({ identity: undefined, reason })
  if (!isJsonObject(object.metadata)) {
    return none(`this ${kind} has ${isAbsent(object.metadata) ? 'no metadata' : 'metadata that are no object'}`)
  }
  const { name, namespace, generateName } = object.metadata
  if (name === undefined || name === null || name === '') {
    return none(
      typeof generateName === 'string' && generateName !== ''
        ? `this ${kind} has only a generateName; a file has to name it`
        : `this ${kind} has no metadata.name`,
    )
  }
  if (typeof name !== 'string' || !isLegalName(kind, name)) {
    return none(`metadata.name ${JSON.stringify(name)} is no legal name of a ${kind}`)
  }
  if (!resourceTypes[kind].namespaced)
    return { identity: { kind, key: clusterKey(cluster, name), subject }, reason: '' }
  if (typeof namespace !== 'string' || !isLegalName('Namespace', namespace)) {
    return none(`metadata.namespace ${JSON.stringify(namespace)} is no legal name of a Namespace`)
  }
  return { identity: { kind, key: objectKey(cluster, namespace, name), subject }, reason: '' }
}
