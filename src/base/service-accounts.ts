// SPDX-License-Identifier: Apache-2.0
// Lists of service accounts as settings write them: `namespace/name`, separated by commas. Drops nothing in silence.

export interface AccountList {
  /** `namespace/name`. */
  readonly accounts: ReadonlySet<string>
  /** Entries that are no such pair, as written. */
  readonly malformed: readonly string[]
}

/** Reads `namespace/name,namespace/name`; blanks around entries and empty entries do not matter. */
export function parseAccountList(text: string): AccountList {
  const accounts = new Set<string>()
  const malformed: string[] = []
  for (const part of text.split(',')) {
    const entry = part.trim()
    if (/^[^/\s]+\/[^/\s]+$/.test(entry)) accounts.add(entry)
    else if (entry !== '') malformed.push(entry)
  }
  return { accounts, malformed }
}

/** Nobody wrote anything. A list of malformed entries alone is not empty: it names nobody, not everybody. */
export function isEmptyAccountList(list: AccountList): boolean {
  return list.accounts.size === 0 && list.malformed.length === 0
}
