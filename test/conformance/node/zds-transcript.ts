// SPDX-License-Identifier: Apache-2.0
// What an agent said and what it was answered, as texts that can be compared: of a recording, and of what went through the tap. Adds and keeps of a snapshot
// have no order, and a message that repeats the last one about its pod counts once.

import type { TappedMessage } from '../../support/zds-tap.js'
import type { Entry } from './zds-agent.js'

/** Of every connection, in the order of their first messages. */
export function listRecorded(conversation: readonly Entry[]): readonly (readonly string[])[] {
  const names = new Set(
    conversation.flatMap(({ conn, dir }) => (conn !== undefined && dir !== undefined ? [conn] : [])),
  )
  return [...names].map((name) => normalize(toRecordedMessages(conversation, name)))
}

/** The same of what was tapped; `podOf` names the namespace of an inode. */
export function listTapped(
  conversations: readonly (readonly TappedMessage[])[],
  podOf: (inode: bigint) => string,
): readonly (readonly string[])[] {
  return conversations.map((said) =>
    normalize(
      said.map(({ kind, uid, hex, inodes, refused }) => ({
        about: uid,
        isEnd: kind === 'snapshotSent',
        text: `${hex} [${inodes.map(podOf).join()}] ${refused === undefined ? 'unanswered' : refused ? 'no' : 'yes'}`,
      })),
    ),
  )
}

interface Message {
  readonly about: string
  readonly isEnd: boolean
  readonly text: string
}

function toRecordedMessages(conversation: readonly Entry[], name: string): readonly Message[] {
  const mine = conversation.filter(({ conn, dir }) => conn === name && dir !== undefined)
  // The greeting has no answer; each message of the agent has one.
  const answers = mine.filter(({ dir, message }) => dir === 'ztunnel->agent' && message?.ack !== undefined)
  return mine
    .filter(({ dir }) => dir === 'agent->ztunnel')
    .map(({ hex, fdOf = [], message }, at) => {
      const error = answers[at]?.message?.ack?.error
      const uid = Object.values((message ?? {}) as Record<string, { readonly uid?: string }>)[0]?.uid ?? ''
      const answer = error === undefined ? 'unanswered' : error === '' ? 'yes' : 'no'
      return { about: uid, isEnd: hex === '1a00', text: `${hex} [${fdOf.join()}] ${answer}` }
    })
}

function normalize(messages: readonly Message[]): readonly string[] {
  const last = new Map<string, string>()
  const once = messages.filter(({ about, text, isEnd }) => {
    if (!isEnd && last.get(about) === text) return false
    last.set(about, text)
    return true
  })
  const end = once.findIndex(({ isEnd }) => isEnd)
  const texts = once.map(({ text }) => text)
  return [...texts.slice(0, Math.max(end, 0)).sort(), ...texts.slice(Math.max(end, 0))]
}
