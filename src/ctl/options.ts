// SPDX-License-Identifier: Apache-2.0
// What the commands were told to do, read and checked.

import type { OutputForm } from './output.js'

/** What every command has. */
export interface CommonOptions {
  /** `host:port`. */
  readonly server: string
  readonly timeoutMs: number
  readonly output: OutputForm
}

/** Filters of the lists; empty: everything. */
export interface ListOptions extends CommonOptions {
  readonly namespace: string
  readonly node: string
}

export type ListName = 'workloads' | 'services' | 'policies' | 'clients'
