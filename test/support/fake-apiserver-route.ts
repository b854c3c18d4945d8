// SPDX-License-Identifier: Apache-2.0
// What a request to the fake API server asks for: verb, type, namespace, name, subresource.

import { resourceTypes } from '../../src/kube/resources.js'
import type { StoredType } from './fake-apiserver-store.js'

/** Everything the programs read, and what they write back. */
export const storedTypes: readonly StoredType[] = [
  ...Object.values(resourceTypes),
  { kind: 'Lease', group: 'coordination.k8s.io', versions: ['v1'], plural: 'leases', namespaced: true, custom: false },
  { kind: 'Secret', group: '', versions: ['v1'], plural: 'secrets', namespaced: true, custom: false },
  { kind: 'DaemonSet', group: 'apps', versions: ['v1'], plural: 'daemonsets', namespaced: true, custom: false },
  {
    kind: 'TokenReview',
    group: 'authentication.k8s.io',
    versions: ['v1'],
    plural: 'tokenreviews',
    namespaced: false,
    custom: false,
  },
]

export type Verb = 'list' | 'watch' | 'get' | 'create' | 'update' | 'patch' | 'delete'

export interface Route {
  readonly verb: Verb
  readonly type: StoredType
  readonly version: string
  readonly namespace: string | undefined
  readonly name: string | undefined
  readonly subresource: string | undefined
  readonly query: URLSearchParams
}

export interface GroupRoute {
  readonly group: string
}

/** Undefined when the path is no resource of ours. */
export function parseRoute(method: string, url: string): Route | GroupRoute | undefined {
  const { pathname, searchParams: query } = new URL(url, 'http://fake')
  const steps = pathname.split('/').slice(1).map(decodeURIComponent)
  const root = steps.shift()
  if (root !== 'api' && root !== 'apis') return undefined
  const group = root === 'api' ? '' : (steps.shift() ?? '')
  if (root === 'apis' && steps.length === 0) return { group }
  const version = steps.shift() ?? ''
  const inNamespace = steps[0] === 'namespaces' && steps.length > 2
  const namespace = inNamespace ? steps.splice(0, 2)[1] : undefined
  const [plural, name, subresource] = steps
  const type = storedTypes.find((t) => t.group === group && t.plural === plural && t.versions.includes(version))
  if (type === undefined) return undefined
  const verb = parseVerb(method, name, query)
  return verb === undefined ? undefined : { verb, type, version, namespace, name, subresource, query }
}

function parseVerb(method: string, name: string | undefined, query: URLSearchParams): Verb | undefined {
  switch (method) {
    case 'GET':
      if (name !== undefined) return 'get'
      return query.get('watch') === 'true' || query.get('watch') === '1' ? 'watch' : 'list'
    case 'POST':
      return 'create'
    case 'PUT':
      return 'update'
    case 'PATCH':
      return 'patch'
    case 'DELETE':
      return 'delete'
    default:
      return undefined
  }
}
