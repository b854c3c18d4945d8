// SPDX-License-Identifier: Apache-2.0
// What fills the inputs: the reflectors of an API server, or a folder of manifests. main starts one and waits for it before anything is served.

/** A source of objects for the inputs. */
export interface Feed {
  /** Fills the inputs until the signal aborts; resolves after everything is closed. Rejects only with Fatal. */
  run(signal: AbortSignal): Promise<void>
  /** Resolves when every kind has been read once and set in the inputs. */
  readonly synced: Promise<void>
  /** Kinds that have not been read yet, for logs and the ready page. */
  pending(): readonly string[]
}
