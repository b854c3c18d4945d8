// SPDX-License-Identifier: Apache-2.0
// What is sent to the API server about a pod, and what is made of its answers.

import { Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import { Retryable } from '../../src/base/errors.js'
import type { KubeApi, KubeRequest } from '../../src/kube/api.js'
import { createPodAnnotator, noAnnotator } from '../../src/node-agent/pod-annotation.js'
import { FakeClock } from '../support/fake-clock.js'

const pod = { uid: 'uid-1', namespace: 'shop', name: 'web', serviceAccount: 'sa' }

function createApi(status: number, body = '{}'): { readonly api: KubeApi; readonly requests: KubeRequest[] } {
  const requests: KubeRequest[] = []
  const api: KubeApi = {
    server: 'https://api',
    close: () => undefined,
    send(request) {
      requests.push(request)
      const contentType = 'application/json'
      return Promise.resolve({ status, contentType, retryAfterMs: undefined, body: Readable.from([Buffer.from(body)]) })
    },
  }
  return { api, requests }
}

test('it is a merge patch of the status that names the uid, and null takes the annotation away', async () => {
  const { api, requests } = createApi(200)
  const annotator = createPodAnnotator(api, new FakeClock())
  expect(await annotator.annotate(pod, 'enabled')).toBe('written')
  expect(await annotator.annotate(pod, undefined)).toBe('written')
  const toRequest = (value: string | null): KubeRequest => ({
    method: 'PATCH',
    path: '/api/v1/namespaces/shop/pods/web/status',
    contentType: 'application/merge-patch+json',
    body: JSON.stringify({ metadata: { uid: 'uid-1', annotations: { 'ambient.istio.io/redirection': value } } }),
  })
  expect(requests).toEqual([toRequest('enabled'), toRequest(null)])
})

const immutable = '{"details":{"causes":[{"reason":"FieldValueInvalid","field":"metadata.uid"}]}}'

test.each([
  [404, '{}'],
  [409, '{}'],
  [422, immutable],
])('%d means that this very pod is not there any more', async (status, body) => {
  expect(await createPodAnnotator(createApi(status, body).api, new FakeClock()).annotate(pod, 'enabled')).toBe('gone')
})

test.each([
  '{"message":"Too long","details":{"causes":[{"field":"metadata.annotations"}]}}',
  '{"message":"Too long"}',
  'Too long',
])('a pod that cannot take the annotation is still there: %s', async (body) => {
  const outcome = createPodAnnotator(createApi(422, body).api, new FakeClock()).annotate(pod, 'enabled')
  await expect(outcome).rejects.toBeInstanceOf(Retryable)
})

test('any other answer is worth another try, and its words are passed on', async () => {
  const { api } = createApi(403, '{"message":"pods is forbidden"}')
  const outcome = createPodAnnotator(api, new FakeClock()).annotate(pod, 'enabled')
  await expect(outcome).rejects.toBeInstanceOf(Retryable)
  await expect(outcome).rejects.toThrow(/shop\/web.*403.*pods is forbidden/)
})

test('an API server that does not answer costs ten seconds at most', async () => {
  const clock = new FakeClock()
  const api: KubeApi = {
    ...createApi(200).api,
    send: (_request, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
  }
  const outcome = createPodAnnotator(api, clock).annotate(pod, 'enabled')
  const failure = outcome.then(
    () => undefined,
    (error: unknown) => error,
  )
  await clock.advance(10_000)
  expect(await failure).toBeInstanceOf(Retryable)
})

test('where nothing is written back everything counts as written', async () => {
  expect(await noAnnotator.annotate(pod, 'pending')).toBe('written')
})
