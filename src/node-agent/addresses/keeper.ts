// SPDX-License-Identifier: Apache-2.0
// Keeps a stream to the control plane open: one after the other, with pauses between them that grow as long as nobody answers.

import { createBackoff } from '../../base/backoff.js'
import { sleep, type Clock } from '../../base/clock.js'
import { formatError } from '../../base/errors.js'
import type { Book } from './book.js'
import type { ClientNode } from './messages.js'
import { runStream, type StreamOptions } from './stream.js'

const firstPauseMs = 200
const longestPauseMs = 15_000

export interface Keeping {
  readonly stream: StreamOptions
  readonly book: Book
  readonly node: ClientNode
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly random: (() => number) | undefined
}

/** Resolves when the signal aborts. `onAway` is told of each end: why, and how long is paused now. */
export async function keepOpen(keeping: Keeping, onAway: (reason: string, pauseMs: number) => void): Promise<void> {
  const { stream, book, node, clock, signal, random } = keeping
  const isAborted = (): boolean => signal.aborted
  const spread = random === undefined ? {} : { random }
  const backoff = createBackoff({ initialMs: firstPauseMs, maxMs: longestPauseMs, ...spread })
  while (!isAborted()) {
    let reason = 'it ended the stream'
    try {
      await runStream(
        stream,
        {
          open(send) {
            send({ node, ...book.open(send) })
          },
          answer(answer) {
            book.take(answer)
            if (book.isGood) backoff.reset()
          },
        },
        signal,
      )
    } catch (error) {
      reason = formatError(error)
    } finally {
      book.close()
    }
    if (isAborted()) return
    const pauseMs = backoff.next()
    onAway(reason, pauseMs)
    await sleep(clock, pauseMs, signal).catch(() => undefined) // aborted: the loop sees it
  }
}
