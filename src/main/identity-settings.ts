// SPDX-License-Identifier: Apache-2.0
// The settings about who is who: what proves a caller, who may have what, and which certificate is shown. Part of the settings table.

import { parseJwtRule, parseKeyPlace, type JwtRule } from '../auth/jwt-rule.js'
import { InvalidInput, formatError } from '../base/errors.js'
import { parseAccountList, type AccountList } from '../base/service-accounts.js'
import { booleanValue, textValue } from '../base/setting-values.js'
import type { SettingsOf, SettingsTable, ValueType } from '../base/settings.js'

const identity = 'Who is who'

/** Texts separated by commas, without blanks around them and without empty ones. */
function listValue(label: string, least: 0 | 1): ValueType<readonly string[]> {
  return {
    label,
    parse(text) {
      const items = text.split(',').map((item) => item.trim())
      const named = items.filter((item) => item !== '')
      if (named.length < least) throw new InvalidInput('must name at least one')
      return named
    },
  }
}

const accountsValue: ValueType<AccountList> = { label: 'ACCOUNTS', parse: parseAccountList }

/** Ours: what cannot be read stops the start, since fewer would be let in than somebody thinks. */
const strictAccountsValue: ValueType<AccountList> = {
  label: 'ACCOUNTS',
  parse(text) {
    const list = parseAccountList(text)
    const [bad] = list.malformed
    if (bad !== undefined) throw new InvalidInput(`"${bad}" is not an account; write it like istio-system/ztunnel`)
    return list
  },
}

/** Audiences are empty when the rule names none. */
const jwtRuleValue: ValueType<JwtRule | undefined> = {
  label: 'JSON',
  parse: (text) => (text === '' ? undefined : parseJwtRule(text)),
}

export const identitySettings = {
  tlsCertFile: {
    group: identity,
    flag: 'tlsCertFile',
    default: '',
    type: textValue('FILE'),
    sentence: 'Certificate (PEM, leaf first) to show on the TLS port, instead of one that addressd makes itself.',
    fromIstiod: true,
  },
  tlsKeyFile: {
    group: identity,
    flag: 'tlsKeyFile',
    default: '',
    type: textValue('FILE'),
    sentence: 'The private key that goes with it.',
    fromIstiod: true,
  },
  caCertFile: {
    group: identity,
    flag: 'caCertFile',
    default: '',
    type: textValue('FILE'),
    sentence: 'Roots (PEM) of the client certificates that count, besides those that addressd itself signs.',
    fromIstiod: true,
  },
  xdsAuth: {
    group: identity,
    env: 'XDS_AUTH',
    default: 'true',
    type: booleanValue,
    sentence:
      'Callers of the TLS port must prove who they are. false asks nobody and turns off the signing of certificates.',
    fromIstiod: true,
  },
  xdsAuthPlaintext: {
    group: identity,
    env: 'XDS_AUTH_PLAINTEXT',
    default: 'false',
    type: booleanValue,
    sentence: 'Discovery streams of the plaintext port must prove who they are too.',
    fromIstiod: true,
  },
  xdsIdentityCheck: {
    group: identity,
    env: 'PILOT_ENABLE_XDS_IDENTITY_CHECK',
    default: 'true',
    type: booleanValue,
    sentence: 'A caller may only say that it is a node of its own namespace, and of its own account if it names one.',
    fromIstiod: true,
  },
  xdsTrustedAccounts: {
    group: identity,
    env: 'XDS_TRUSTED_ACCOUNTS',
    default: '',
    type: strictAccountsValue,
    sentence:
      'Accounts (NAMESPACE/NAME, separated by commas) that may have addresses and policies on the TLS port, besides those of CA_TRUSTED_NODE_ACCOUNTS. While neither names any, every service account may, as with istiod, and a warning says so.',
  },
  caTrustedNodeAccounts: {
    group: identity,
    env: 'CA_TRUSTED_NODE_ACCOUNTS',
    default: '',
    type: accountsValue,
    sentence:
      'Accounts (NAMESPACE/NAME, separated by commas) of node proxies: they may ask for certificates of the accounts that run on their node. Once it names any, only they and those of XDS_TRUSTED_ACCOUNTS have addresses and policies on the TLS port.',
    fromIstiod: true,
  },
  tokenAudiences: {
    group: identity,
    env: 'TOKEN_AUDIENCES',
    default: 'istio-ca',
    type: listValue('AUDIENCES', 1),
    sentence: 'A bearer token must be made for one of these audiences, separated by commas.',
    fromIstiod: true,
  },
  jwtRule: {
    group: identity,
    env: 'JWT_RULE',
    default: '',
    type: jwtRuleValue,
    sentence:
      'Tokens that an issuer signed count without asking the API server: `{"issuer": …, "audiences": […], "jwksUri": …}`. Without jwksUri the issuer is asked for its keys, without audiences TOKEN_AUDIENCES count.',
    fromIstiod: true,
  },
  tokenIssuer: {
    group: identity,
    env: 'TOKEN_ISSUER',
    default: '',
    type: textValue('URL'),
    sentence: 'The same in fewer words, for meshes without an API server: the issuer of the tokens.',
    fromIstiod: true,
  },
  tokenIssuerAudience: {
    group: identity,
    env: 'AUDIENCE',
    default: '',
    type: textValue('AUDIENCE'),
    sentence: 'The audience of tokens of TOKEN_ISSUER. Empty: TOKEN_AUDIENCES.',
    fromIstiod: true,
  },
  tokenKeys: {
    group: identity,
    env: 'ADDRESSD_TOKEN_KEYS',
    default: '',
    type: textValue('FILE|URL'),
    sentence:
      'Where the public keys of TOKEN_ISSUER are: a file or an address with a JSON Web Key Set. Empty: the issuer is asked.',
  },
  debugByNamespace: {
    group: identity,
    env: 'ENABLE_DEBUG_ENDPOINT_AUTH',
    default: 'true',
    type: booleanValue,
    sentence:
      'Of /debug, callers from elsewhere see everything only with a token of the control plane’s namespace; those of other namespaces see what their own proxies hold. false: every proven caller sees everything.',
    fromIstiod: true,
  },
  debugNamespaces: {
    group: identity,
    env: 'DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES',
    default: '',
    type: listValue('NAMESPACES', 0),
    sentence: 'More namespaces, separated by commas, whose accounts see everything.',
    fromIstiod: true,
  },
} satisfies SettingsTable

export type IdentitySettings = SettingsOf<typeof identitySettings>

/** Issuers whose signed tokens count. Throws InvalidInput when the settings do not say where the keys are. */
export function selectJwtRules(settings: IdentitySettings): readonly JwtRule[] {
  const { jwtRule, tokenIssuer, tokenIssuerAudience, tokenKeys } = settings
  const rules = jwtRule === undefined ? [] : [jwtRule]
  if (tokenIssuer === '') return rules
  const audiences = tokenIssuerAudience === '' ? [] : [tokenIssuerAudience]
  return [...rules, { issuer: tokenIssuer, audiences, keys: parseKeyPlace(tokenKeys, tokenIssuer) }]
}

/** Rules between these settings; each sentence is a problem. */
export function selectIdentityContradictions(settings: IdentitySettings): readonly string[] {
  const problems: string[] = []
  if ((settings.tlsCertFile === '') !== (settings.tlsKeyFile === '')) {
    problems.push('--tlsCertFile and --tlsKeyFile go together: give both or neither')
  }
  if (settings.tokenIssuer === '' && settings.tokenKeys !== '') {
    problems.push('ADDRESSD_TOKEN_KEYS: whose keys they are is missing; set TOKEN_ISSUER too')
  }
  if (!settings.xdsAuth && settings.xdsTrustedAccounts.accounts.size > 0) {
    problems.push(
      'XDS_AUTH: false leaves no way to know the accounts of XDS_TRUSTED_ACCOUNTS; leave out one of the two',
    )
  }
  try {
    selectJwtRules(settings)
  } catch (error) {
    problems.push(`TOKEN_ISSUER: ${formatError(error)} (ADDRESSD_TOKEN_KEYS)`)
  }
  return problems
}
