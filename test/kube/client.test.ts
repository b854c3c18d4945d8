// SPDX-License-Identifier: Apache-2.0
// How an API server is found and what it is told about who asks.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Fatal, Retryable } from '../../src/base/errors.js'
import { readBody, type KubeApi } from '../../src/kube/api.js'
import { createKubeApi } from '../../src/kube/client.js'
import { parseKubeconfig, tokenRereadMs } from '../../src/kube/kubeconfig.js'
import { FakeApiServer } from '../support/fake-apiserver.js'
import { FakeClock } from '../support/fake-clock.js'

let directory = ''
beforeAll(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'addressd-client-'))
})
afterAll(() => rm(directory, { recursive: true }))

async function write(name: string, text: string): Promise<string> {
  const file = path.join(directory, name)
  await writeFile(file, text)
  return file
}

function kubeconfig(server: string, user: object, cluster: object = {}): string {
  return JSON.stringify({
    'current-context': 'one',
    contexts: [{ name: 'one', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server, ...cluster } }],
    users: [{ name: 'u', user }],
  })
}

async function status(api: KubeApi): Promise<number> {
  const response = await api.send({ path: '/api/v1/pods' }, new AbortController().signal)
  await readBody(response)
  return response.status
}

describe('a kubeconfig', () => {
  test('names server, trust and identity of its current context', () => {
    const user = { 'client-certificate-data': 'Y2VydA==', 'client-key-data': 'a2V5', token: 't' }
    const cluster = { 'certificate-authority-data': 'Y2E=', 'tls-server-name': 'name' }
    expect(parseKubeconfig(kubeconfig('https://h:6443', user, cluster), '/')).toStrictEqual({
      server: 'https://h:6443',
      tls: { ca: Buffer.from('ca'), cert: Buffer.from('cert'), key: Buffer.from('key'), servername: 'name' },
      token: 't',
      tokenFile: undefined,
      basic: undefined,
      foreign: undefined,
    })
  })

  test('may have paths that start beside it, a password, no checks', async () => {
    await write('ca.pem', 'the ca')
    const user = { username: 'me', password: 'secret', tokenFile: 'token' }
    const text = kubeconfig('https://h', user, { 'certificate-authority': 'ca.pem', 'insecure-skip-tls-verify': true })
    expect(parseKubeconfig(text, directory)).toStrictEqual({
      server: 'https://h',
      tls: { ca: Buffer.from('the ca'), rejectUnauthorized: false },
      token: undefined,
      tokenFile: path.join(directory, 'token'),
      basic: 'me:secret',
      foreign: undefined,
    })
  })

  test.each([
    ['{', 'kubeconfig: it is not YAML'],
    ['', 'kubeconfig: it is empty'],
    ['{"contexts": {}}', 'kubeconfig: contexts must be a list, it is an object'],
    ['{"current-context": "x"}', 'kubeconfig: contexts has none named "x"'],
    [kubeconfig('', {}), 'kubeconfig: the cluster of context one has no server'],
  ])('that is wrong stops the start and says why: %s', async (text, message) => {
    const file = await write('wrong', text)
    const made = createKubeApi({ kubeconfig: file, clock: new FakeClock() })
    await expect(made).rejects.toBeInstanceOf(Fatal)
    await expect(made).rejects.toThrow(message)
  })

  test('and nothing else to go by stops the start, too', async () => {
    await expect(createKubeApi({ clock: new FakeClock() })).rejects.toBeInstanceOf(Fatal)
  })
})

describe('a token file', () => {
  test('is read again when the token was refused, and after a minute', async () => {
    const clock = new FakeClock()
    const server = new FakeApiServer({ clock, token: 'first' })
    await server.start()
    const tokenFile = await write('token', 'first\n')
    const file = await write('config', kubeconfig(server.url, { tokenFile }))
    const api = await createKubeApi({ kubeconfig: file, clock })
    expect(await status(api)).toBe(200)
    server.token = 'second'
    await write('token', 'second\n')
    expect([await status(api), await status(api)]).toStrictEqual([401, 200])
    await write('token', 'third\n')
    expect(await status(api)).toBe(200)
    await clock.advance(tokenRereadMs)
    server.token = 'third'
    expect(await status(api)).toBe(200)
    api.close()
    await server.stop()
  })
})

describe('a user that needs a credential program', () => {
  test('is served by that program', async () => {
    const clock = new FakeClock()
    const server = new FakeApiServer({ clock, token: 'from-exec' })
    await server.start()
    const credential = {
      kind: 'ExecCredential',
      apiVersion: 'client.authentication.k8s.io/v1',
      status: { token: 'from-exec' },
    }
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: 'echo',
      args: [JSON.stringify(credential)],
      interactiveMode: 'Never',
    }
    const file = await write('exec', kubeconfig(server.url, { exec }, { 'insecure-skip-tls-verify': true }))
    const api = await createKubeApi({ kubeconfig: file, clock })
    expect(await status(api)).toBe(200)
    api.close()
    await server.stop()
  })
})

test('a server that cannot be reached is something to try again', async () => {
  const api = await createKubeApi({ server: 'http://127.0.0.1:1', clock: new FakeClock() })
  await expect(status(api)).rejects.toBeInstanceOf(Retryable)
})
