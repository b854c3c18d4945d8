// SPDX-License-Identifier: Apache-2.0
// Whose signed tokens count without asking an API server, as settings say it: an issuer, audiences, and where its public keys are. Fetches nothing.

import { InvalidInput } from '../base/errors.js'

/** Where the public keys of an issuer are. */
export type KeyPlace =
  /** Asked of the issuer itself, by OpenID discovery. */
  | { readonly kind: 'discovery' }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'file'; readonly path: string }
  /** A JSON Web Key Set. */
  | { readonly kind: 'text'; readonly text: string }

export interface JwtRule {
  readonly issuer: string
  /** A token must be for one of these. Empty: for one of those that count everywhere. */
  readonly audiences: readonly string[]
  readonly keys: KeyPlace
}

/**
 * Reads a rule as istiod's JWT_RULE writes it: JSON with `issuer`, and at will `audiences`, `jwksUri` (or `jwks_uri`) and `jwks`. Throws
 * InvalidInput.
 */
export function parseJwtRule(text: string): JwtRule {
  const rule = parseObject(text)
  const { issuer, audiences = [], jwks } = rule
  const uri = rule['jwksUri'] ?? rule['jwks_uri']
  if (typeof issuer !== 'string' || issuer === '') throw new InvalidInput('the rule has no issuer')
  if (!Array.isArray(audiences) || !audiences.every((audience) => typeof audience === 'string')) {
    throw new InvalidInput('audiences must be a list of texts')
  }
  if ((uri !== undefined && typeof uri !== 'string') || (jwks !== undefined && typeof jwks !== 'string')) {
    throw new InvalidInput('jwksUri and jwks must be texts')
  }
  const keys: KeyPlace =
    jwks !== undefined && jwks !== '' ? { kind: 'text', text: jwks } : parseKeyPlace(uri ?? '', issuer)
  return { issuer, audiences, keys }
}

/** Reads where keys are: an http or https URL, or the path of a file, `file:` before it or not. Empty = discovery. Throws InvalidInput. */
export function parseKeyPlace(text: string, issuer: string): KeyPlace {
  if (text === '') {
    if (!isWebUrl(issuer))
      throw new InvalidInput(`the issuer "${issuer}" is no URL that keys could be had from; say where they are`)
    return { kind: 'discovery' }
  }
  if (isWebUrl(text)) return { kind: 'url', url: text }
  if (/^[a-z][a-z0-9+.-]*:/i.test(text) && !text.startsWith('file:')) {
    throw new InvalidInput(`"${text}" is neither an http or https URL nor a file`)
  }
  return { kind: 'file', path: text.replace(/^file:(\/\/(?=\/))?/, '') }
}

function isWebUrl(text: string): boolean {
  return /^https?:\/\//.test(text) && URL.canParse(text)
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new InvalidInput('the rule is not JSON', error)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new InvalidInput('the rule is not a JSON object')
  return value as Readonly<Record<string, unknown>>
}
