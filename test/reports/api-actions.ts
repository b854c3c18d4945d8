// SPDX-License-Identifier: Apache-2.0
// The actions of a report that change what the API server holds, or how it behaves. For every kind of room.

import type { FakeApiServer, WatchFault } from '../support/fake-apiserver.js'
import type { Json, ObjectRef } from '../support/fake-apiserver-store.js'

type Action = Readonly<Record<string, unknown>>
type Patch = ObjectRef & { merge: Json }

/** Makes the action if it is one of these; false when it is another. */
export function changeApi(api: FakeApiServer, action: Action): boolean {
  const [verb = ''] = Object.keys(action)
  const change = changes[verb]
  change?.(api, action)
  return change !== undefined
}

const changes: Readonly<Record<string, (api: FakeApiServer, action: Action) => void>> = {
  upsert: (api, a) => api.upsert(...(a['upsert'] as Json[])),
  patch: (api, a) => api.patch(...(a['patch'] as Patch[])),
  delete: (api, a) => api.remove(...(a['delete'] as ObjectRef[])),
  relist(api, a) {
    const { kinds, meanwhile } = a['relist'] as { kinds: string[] | 'all'; meanwhile?: Action[] }
    api.relist(kinds, () => {
      for (const change of meanwhile ?? []) {
        if ('upsert' in change) api.upsert(...(change['upsert'] as Json[]))
        else if ('patch' in change) api.patch(...(change['patch'] as Patch[]))
        else if ('delete' in change) api.remove(...(change['delete'] as ObjectRef[]))
        else throw new Error(`unknown change ${JSON.stringify(change)}`)
      }
    })
  },
  watch(api, a) {
    const { kinds, how, status } = a['watch'] as { kinds: string[] | 'all'; how: WatchFault; status?: number }
    api.watch(kinds, how, status)
  },
  pages(api, a) {
    const { kinds, ...fault } = a['pages'] as { kinds: string[]; size: number; failAfter?: number; with?: number }
    api.pages(kinds, fault)
  },
  api: (api, a) => api.api(a['api'] as Parameters<FakeApiServer['api']>[0]),
}
