// SPDX-License-Identifier: Apache-2.0
// Puts the objects of a chart into a real API server and asks it what the account that they make may do.

import { expect } from '@jest/globals'
import { join } from 'node:path'
import type { ApiServer } from '../support/apiserver.js'
import { writeKubeconfig } from '../cluster/room.js'
import type { Manifest } from './golden.js'
import { toCollectionPath } from './paths.js'

/** One thing to do; a name that is left out means all of them. */
export interface Wish {
  readonly verb: string
  readonly group?: string
  readonly resource: string
  readonly subresource?: string
  readonly namespace?: string
  readonly name?: string
}

export interface Account {
  readonly namespace: string
  readonly name: string
}

/** Fields that it does not know are refused. */
export async function create(
  api: ApiServer,
  object: Manifest,
  query = '',
): Promise<{ status: number; warning: unknown; body: string }> {
  const path = `${toCollectionPath(object)}?fieldValidation=Strict${query}`
  const answer = await api.request('POST', path, object)
  return { status: answer.status, warning: answer.headers['warning'], body: answer.body.toString() }
}

/** Those of the wishes that are granted, or refused, as `granted` says. */
export async function selectByAccess(
  api: ApiServer,
  { namespace, name }: Account,
  wishes: readonly Wish[],
  granted: boolean,
): Promise<readonly Wish[]> {
  const isAllowed = async (wish: Wish): Promise<boolean> => {
    const answer = await api.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        user: `system:serviceaccount:${namespace}:${name}`,
        groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
        resourceAttributes: wish,
      },
    })
    expect(answer.status).toBe(201)
    return answer.json().status.allowed
  }
  const answers = await Promise.all(wishes.map(isAllowed))
  return wishes.filter((_, i) => answers[i] === granted)
}

/** A kubeconfig with a token of the account; gives its path. */
export async function createKubeconfig(api: ApiServer, { namespace, name }: Account): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`
  const answer = await api.request('POST', path, { spec: { expirationSeconds: 3600 } })
  expect(answer.status).toBe(201)
  const { status } = answer.json()
  const kubeconfigPath = join(api.folder, `kubeconfig-of-${name}`)
  writeKubeconfig(api.kubeconfigPath, kubeconfigPath, (config) => (config.users[0].user = { token: status.token }))
  return kubeconfigPath
}
