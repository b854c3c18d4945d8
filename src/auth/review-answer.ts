// SPDX-License-Identifier: Apache-2.0
// What an API server answered to a TokenReview, judged field by field. Pure. Whatever is missing or of another shape counts against the token.

import { parseServiceAccountUser, toTokenCaller } from './service-account.js'
import { refuse, type Verdict } from './verdict.js'

/** Of an answer whose body is JSON; `audiences` are those that were asked about. */
export function judgeReview(answer: unknown, audiences: readonly string[], trustDomain: string): Verdict {
  const status = field(answer, 'status')
  // The words are the API server's and may say more than a caller should learn.
  if (textOf(field(status, 'error')) !== '' || field(status, 'authenticated') !== true) {
    return refuse(`the API server does not accept the token for audience ${audiences.join(' or ')}`)
  }
  if (!textsOf(field(status, 'audiences')).some((audience) => audiences.includes(audience))) {
    return refuse(`the token is not confirmed to be for audience ${audiences.join(' or ')}`)
  }
  const user = field(status, 'user')
  const account = parseServiceAccountUser(textOf(field(user, 'username')))
  if (account === undefined || !textsOf(field(user, 'groups')).includes('system:serviceaccounts')) {
    return refuse('the token is not one of a service account')
  }
  const extra = field(user, 'extra')
  const [podName = '', podUid = ''] = ['pod-name', 'pod-uid'].map(
    (name) => textsOf(field(extra, `authentication.kubernetes.io/${name}`))[0],
  )
  const pod = podName === '' || podUid === '' ? undefined : { name: podName, uid: podUid }
  const caller = toTokenCaller(account, pod, trustDomain, 'kubernetes')
  if (caller === undefined) return refuse('no identity can be written of the account that the token names')
  return { kind: 'caller', caller }
}

function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}
