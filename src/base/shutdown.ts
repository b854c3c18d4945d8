// SPDX-License-Identifier: Apache-2.0
// One tree of AbortSignals for the end of a program: first "please finish", then "now". Knows signals of the operating system only by the emitter it is given.

/** The part of `process` that is needed; tests give an EventEmitter. */
export interface SignalEmitter {
  on(name: string, listener: (name: string) => void): unknown
  removeListener(name: string, listener: (name: string) => void): unknown
}

export interface Shutdown {
  /** Aborted when the program shall finish: stop taking work, let go of peers gently. */
  readonly graceful: AbortSignal
  /** Aborted when it shall end at once. Never aborted before `graceful`. */
  readonly now: AbortSignal
  /** Asks to finish. A second call changes nothing. */
  request(reason: string): void
  /** Asks to end at once. */
  force(reason: string): void
  /** Takes the handlers away from the emitter. Signals already aborted stay so. */
  dispose(): void
}

const names = ['SIGTERM', 'SIGINT'] as const

/**
 * The first SIGTERM or SIGINT of `emitter` aborts `graceful`, the second aborts `now`. Without an emitter only the functions do.
 * `parent`, when it aborts, asks to finish.
 */
export function createShutdown(emitter?: SignalEmitter, parent?: AbortSignal): Shutdown {
  const graceful = new AbortController()
  const now = new AbortController()
  const request = (reason: string): void => {
    if (!graceful.signal.aborted) graceful.abort(new Error(reason))
  }
  const force = (reason: string): void => {
    request(reason)
    if (!now.signal.aborted) now.abort(new Error(reason))
  }
  const onSignal = (name: string): void => {
    if (graceful.signal.aborted) force(`${name} again`)
    else request(name)
  }
  const onParent = (): void => request('stopped by its owner')
  for (const name of names) emitter?.on(name, onSignal)
  if (parent?.aborted === true) onParent()
  else parent?.addEventListener('abort', onParent, { once: true })
  return {
    graceful: graceful.signal,
    now: now.signal,
    request,
    force,
    dispose() {
      for (const name of names) emitter?.removeListener(name, onSignal)
      parent?.removeEventListener('abort', onParent)
    },
  }
}

/** Resolves when the signal aborts, at once when it has. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
