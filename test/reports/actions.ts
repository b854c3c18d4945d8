// SPDX-License-Identifier: Apache-2.0
// The actions of a report's steps, each made and taken in before the next. An action that is not known here fails the case by name.

import { changeApi } from './api-actions.js'
import { isRecord } from './cases.js'
import type { ClientAction } from './client.js'
import { pastMs, type Room } from './room.js'

type Action = Readonly<Record<string, unknown>>

/** Makes one action; resolves when it has been taken in. */
export async function act(room: Room, action: unknown): Promise<void> {
  if (!isRecord(action)) throw new Error(`not an action: ${JSON.stringify(action)}`)
  const [verb = ''] = Object.keys(action)
  if (!changeApi(room.api, action)) {
    const make = actions[verb]
    if (make === undefined) throw new Error(`unknown action ${verb}`)
    await make(room, action)
  }
  await room.quiet()
}

const actions: Readonly<Record<string, (room: Room, action: Action) => void | Promise<void>>> = {
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
