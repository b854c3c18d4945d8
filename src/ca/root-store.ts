// SPDX-License-Identifier: Apache-2.0
// Where a self-signed root is kept, as the authority sees it: a Secret that all replicas share, or a file. Stores decide nothing and log nothing.

/** A root with its key. Texts in PEM. Never to be logged. */
export interface RootTexts {
  readonly certificate: string
  readonly privateKey: string
  /** What proxies are to trust: the certificate, and perhaps others. Empty = the certificate alone. */
  readonly roots: string
}

export interface StoredRoot extends RootTexts {
  /** Changes with every write; what an update must name. */
  readonly version: string
}

/** All functions reject with Retryable when the store cannot be reached, and with InvalidInput when what it holds is no root. */
export interface RootStore {
  /** For messages: `Secret istio-system/istio-ca-secret`. */
  readonly name: string
  /** Undefined: there is none. */
  read(signal: AbortSignal): Promise<StoredRoot | undefined>
  /** Undefined: somebody else was first. */
  create(root: RootTexts, signal: AbortSignal): Promise<StoredRoot | undefined>
  /** Undefined: it is no longer the version that was named, or no longer there. */
  update(root: RootTexts, version: string, signal: AbortSignal): Promise<StoredRoot | undefined>
  /** Roots that proxies were told to trust, in PEM, from where they are told; undefined where nobody was told any. */
  readPublished?(signal: AbortSignal): Promise<string | undefined>
}

/** Reads the first store that holds a root, and makes one in the last when none does. */
export function createLayeredRootStore(first: RootStore, last: RootStore): RootStore {
  const prefix = `${first.name}#`
  const mark = (root: StoredRoot | undefined): StoredRoot | undefined =>
    root === undefined ? undefined : { ...root, version: prefix + root.version }
  return {
    name: `${first.name} or ${last.name}`,
    async read(signal) {
      return mark(await first.read(signal)) ?? (await last.read(signal))
    },
    create: (root, signal) => last.create(root, signal),
    async update(root, version, signal) {
      if (!version.startsWith(prefix)) return last.update(root, version, signal)
      return mark(await first.update(root, version.slice(prefix.length), signal))
    },
    async readPublished(signal) {
      return (await first.readPublished?.(signal)) ?? (await last.readPublished?.(signal))
    },
  }
}
