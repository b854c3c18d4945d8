// SPDX-License-Identifier: Apache-2.0
// The public keys of an issuer: from a file, an address, the issuer itself or the settings. Fetched when first needed, and again when they are old or a key is
// missing. What was fetched once stays while nothing newer can be had.

import { readFile } from 'node:fs/promises'
import type { JSONWebKeySet } from 'jose'
import type { Clock } from '../base/clock.js'
import { Retryable, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { JwtRule } from './jwt-rule.js'

/** Gives the text at an http or https address; rejects for anything but success, and soon after the signal aborts. */
export type FetchText = (url: string, signal: AbortSignal) => Promise<string>

export interface KeySourceOptions {
  readonly rule: JwtRule
  readonly clock: Clock
  readonly log: Logger
  readonly fetchText?: FetchText
}

const maxAgeMs = 10 * 60_000
/** A stranger may name keys that do not exist as often as he likes. */
const cooldownMs = 10_000
const timeoutMs = 5_000
const longestDocument = 1024 * 1024

export class KeySource {
  readonly #options: KeySourceOptions
  #keys: JSONWebKeySet | undefined
  #fetchedAtMs = 0
  #triedAtMs = -Infinity
  #fetching: Promise<void> | undefined

  constructor(options: KeySourceOptions) {
    this.#options = options
  }

  /** Keys that are fresh, or the last ones. Rejects with Retryable when there are none yet. */
  async keys(): Promise<JSONWebKeySet> {
    const now = this.#options.clock.monotonic()
    if (this.#keys === undefined || now - this.#fetchedAtMs > maxAgeMs) await this.#refresh()
    if (this.#keys === undefined) throw new Retryable('tokens cannot be checked: the keys of the issuer cannot be had')
    return this.#keys
  }

  /** Fetches anew because a key was missing, unless that was just done. True when the keys may be others now. */
  async renew(): Promise<boolean> {
    const before = this.#keys
    await this.#refresh()
    return this.#keys !== before
  }

  /** Fetches once for all who ask meanwhile, and not at every call. Failures leave the keys as they are. */
  async #refresh(): Promise<void> {
    const { clock } = this.#options
    if (this.#fetching === undefined) {
      if (clock.monotonic() - this.#triedAtMs < cooldownMs) return
      this.#triedAtMs = clock.monotonic()
      this.#fetching = this.#fetch().finally(() => (this.#fetching = undefined))
    }
    await this.#fetching
  }

  async #fetch(): Promise<void> {
    const { clock, log, rule } = this.#options
    const aborting = new AbortController()
    const timer = clock.after(timeoutMs, () => aborting.abort(new Retryable(`no answer in ${timeoutMs / 1000} s`)))
    try {
      this.#keys = parseKeySet(await this.#read(aborting.signal))
      this.#fetchedAtMs = clock.monotonic()
    } catch (error) {
      log.warn({ issuer: rule.issuer, error: formatError(error) }, 'the keys of a token issuer cannot be had')
    } finally {
      timer.cancel()
    }
  }

  async #read(signal: AbortSignal): Promise<string> {
    const { rule, fetchText = fetchByHttp } = this.#options
    const { keys } = rule
    switch (keys.kind) {
      case 'text':
        return keys.text
      case 'file':
        return await readFile(keys.path, 'utf8')
      case 'url':
        return await fetchText(keys.url, signal)
      case 'discovery':
        return await fetchText(await this.#discover(fetchText, signal), signal)
    }
  }

  async #discover(fetchText: FetchText, signal: AbortSignal): Promise<string> {
    const { issuer } = this.#options.rule
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const document: unknown = JSON.parse(await fetchText(url, signal))
    const found = typeof document === 'object' && document !== null ? (document as Record<string, unknown>) : {}
    if (found['issuer'] !== issuer) throw new Retryable(`${url} is the document of another issuer`)
    if (typeof found['jwks_uri'] !== 'string') throw new Retryable(`${url} names no jwks_uri`)
    return found['jwks_uri']
  }
}

function parseKeySet(text: string): JSONWebKeySet {
  const value: unknown = JSON.parse(text)
  const keys = typeof value === 'object' && value !== null && 'keys' in value ? value.keys : undefined
  if (!Array.isArray(keys) || !keys.every((key) => typeof key === 'object' && key !== null)) {
    throw new Retryable('this is no set of keys')
  }
  return { keys: keys as JSONWebKeySet['keys'] }
}

/** By fetch, without following anybody elsewhere. */
async function fetchByHttp(url: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, { signal, redirect: 'error', headers: { accept: 'application/json' } })
  if (response.status !== 200) throw new Retryable(`${url} answered ${response.status}`)
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    length += part.length
    if (length > longestDocument) throw new Retryable(`${url} answered with more than ${longestDocument} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}
