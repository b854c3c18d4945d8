// SPDX-License-Identifier: Apache-2.0
// The versions of CNI we speak, what each can do, and the results of each that we write ourselves. Knows no pods.

export const supportedVersions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'] as const
export type CniVersion = (typeof supportedVersions)[number]

/** Results of versions of one format can stand for each other. */
export type ResultFormat = 'ip4-ip6' | 'ips-with-version' | 'ips'

/** What a configuration without `cniVersion` means. */
export const impliedVersion: CniVersion = '0.1.0'

export function isCniVersion(text: string): text is CniVersion {
  return (supportedVersions as readonly string[]).includes(text)
}

export function toResultFormat(version: CniVersion): ResultFormat {
  if (version === '0.1.0' || version === '0.2.0') return 'ip4-ip6'
  return version === '1.0.0' || version === '1.1.0' ? 'ips' : 'ips-with-version'
}

/** True when `version` is `first` or a later one. */
export function isSince(version: CniVersion, first: CniVersion): boolean {
  return supportedVersions.indexOf(version) >= supportedVersions.indexOf(first)
}

/** A result that says nothing: for an ADD with nobody before us in the chain. Versions below 1.0.0 must have a `dns`. */
export function formatEmptyResult(version: CniVersion): string {
  return JSON.stringify({ cniVersion: version, ...(isSince(version, '1.0.0') ? {} : { dns: {} }) })
}

/** The answer to VERSION. */
export function formatVersions(): string {
  return JSON.stringify({ cniVersion: supportedVersions.at(-1), supportedVersions })
}
