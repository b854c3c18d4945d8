// SPDX-License-Identifier: Apache-2.0
// The actions of a report's steps, each made and taken in before the next. An action that is not known here fails the case by name.

import type { WatchFault } from '../support/fake-apiserver.js'
import type { Json, ObjectRef } from '../support/fake-apiserver-store.js'
import { isRecord } from './cases.js'
import type { ClientAction } from './client.js'
import { pastMs, type Room } from './room.js'

type Action = Readonly<Record<string, unknown>>
type Patch = ObjectRef & { merge: Json }

/** Makes one action; resolves when it has been taken in. */
export async function act(room: Room, action: unknown): Promise<void> {
  if (!isRecord(action)) throw new Error(`not an action: ${JSON.stringify(action)}`)
  const [verb] = Object.keys(action)
  const make = verb === undefined ? undefined : actions[verb]
  if (make === undefined) throw new Error(`unknown action ${String(verb)}`)
  await make(room, action)
  await room.quiet()
}

const actions: Readonly<Record<string, (room: Room, action: Action) => void | Promise<void>>> = {
  upsert: (room, a) => room.api.upsert(...(a['upsert'] as Json[])),
  patch: (room, a) => room.api.patch(...(a['patch'] as Patch[])),
  delete: (room, a) => room.api.remove(...(a['delete'] as ObjectRef[])),
  relist(room, a) {
    const { kinds, meanwhile } = a['relist'] as { kinds: string[] | 'all'; meanwhile?: Action[] }
    room.api.relist(kinds, () => {
      for (const change of meanwhile ?? []) {
        if ('upsert' in change) room.api.upsert(...(change['upsert'] as Json[]))
        else if ('patch' in change) room.api.patch(...(change['patch'] as Patch[]))
        else if ('delete' in change) room.api.remove(...(change['delete'] as ObjectRef[]))
        else throw new Error(`unknown change ${JSON.stringify(change)}`)
      }
    })
  },
  watch(room, a) {
    const { kinds, how, status } = a['watch'] as { kinds: string[] | 'all'; how: WatchFault; status?: number }
    room.api.watch(kinds, how, status)
  },
  pages(room, a) {
    const { kinds, ...fault } = a['pages'] as { kinds: string[]; size: number; failAfter?: number; with?: number }
    room.api.pages(kinds, fault)
  },
  api: (room, a) => room.api.api(a['api'] as Parameters<Room['api']['api']>[0]),
  async clock(room, a) {
    const by = a['clock']
    if (typeof by === 'number') return room.advance(by)
    const { past } = by as { past: string }
    const ms = pastMs[past]
    if (ms === undefined) throw new Error(`the product has no limit called ${past}`)
    await room.advance(ms)
  },
  async server(room, a) {
    const what = a['server'] as string
    if (what === 'terminate') room.terminateServer()
    else if (what === 'start') await room.startServer()
    else if (what === 'stop') await room.stopServer()
    else if (what === 'restart') {
      await room.stopServer()
      await room.quiet()
      await room.startServer()
    } else throw new Error(`unknown server action ${what}`)
  },
  client(room, a) {
    const action = a['client'] as ClientAction
    room.client(action.name).act(action)
  },
  disconnect(room, a) {
    const { client, how } = a['disconnect'] as { client: string; how: 'close' | 'reset' | 'freeze' }
    return room.client(client).disconnect(how)
  },
  ctl: (room, a) => room.ctl(a['ctl'] as string[]),
  async parallel(room, a) {
    await Promise.all((a['parallel'] as unknown[]).map((one) => act(room, one)))
  },
}
