// SPDX-License-Identifier: Apache-2.0
// Makes a KubeApi from a kubeconfig file or from the credentials inside a pod. For main. The only file that touches the Kubernetes client
// package, and only for users that need a credential program, a provider or a proxy: loading it costs 70 MB of memory and two seconds.

import { readFile } from 'node:fs/promises'
import { Agent } from 'node:http'
import type { AgentOptions, RequestOptions } from 'node:https'
import path from 'node:path'
import type { Clock } from '../base/clock.js'
import { Fatal, formatError } from '../base/errors.js'
import type { KubeApi } from './api.js'
import { HttpKubeApi, type CredentialSource } from './http-api.js'
import { FileCredentials, parseKubeconfig } from './kubeconfig.js'

export interface KubeApiOptions {
  /** Path of a kubeconfig file. */
  readonly kubeconfig?: string
  /** A context of it other than the current one. */
  readonly context?: string
  /** Inside a pod: host and port of the API server as its environment names them. Used when there is no kubeconfig. */
  readonly inCluster?: { readonly host: string; readonly port: string; readonly directory?: string }
  /** An API server that asks for no credentials, such as `http://127.0.0.1:8001`. Used when there is neither of the others. */
  readonly server?: string
  readonly clock: Clock
}

const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Reads the configuration; no request is made. Rejects with Fatal when it is missing or wrong. */
export async function createKubeApi(options: KubeApiOptions): Promise<KubeApi> {
  try {
    if (options.kubeconfig !== undefined) return await fromFile(options.kubeconfig, options)
    if (options.inCluster !== undefined) return fromPod(options.inCluster, options.clock)
    if (options.server !== undefined) return new HttpKubeApi(options.server, anonymous, options.clock)
  } catch (error) {
    const where = options.kubeconfig === undefined ? '' : ` in the kubeconfig file ${options.kubeconfig}`
    // Of several lines the first says what is wrong, and the others show the file.
    const [reason] = formatError(error).split('\n')
    throw new Fatal(`the API server's configuration${where} cannot be used: ${reason ?? ''}`, error)
  }
  throw new Fatal('there is no API server: give a kubeconfig file, or run inside a cluster')
}

const anonymous: CredentialSource = {
  read: () => Promise.resolve({ headers: {}, tls: noTls }),
  refused: () => undefined,
}
const noTls: AgentOptions = {}

async function fromFile(file: string, options: KubeApiOptions): Promise<KubeApi> {
  const text = await readFile(file, 'utf8')
  const target = parseKubeconfig(text, path.dirname(path.resolve(file)), options.context)
  const credentials =
    target.foreign === undefined
      ? new FileCredentials(target, options.clock)
      : await toForeignCredentials(file, target.foreign === 'proxy-url', options.context)
  return new HttpKubeApi(target.server, credentials, options.clock)
}

function fromPod(pod: NonNullable<KubeApiOptions['inCluster']>, clock: Clock): KubeApi {
  const directory = pod.directory ?? serviceAccount
  const host = pod.host.includes(':') ? `[${pod.host}]` : pod.host
  const target = {
    server: `https://${host}:${pod.port}`,
    tls: {},
    token: undefined,
    tokenFile: path.join(directory, 'token'),
    basic: undefined,
    foreign: undefined,
  }
  return new HttpKubeApi(target.server, new FileCredentials(target, clock, path.join(directory, 'ca.crt')), clock)
}

/** Credentials by the client package, which runs the program and caches what it said until that expires. */
async function toForeignCredentials(file: string, proxied: boolean, context?: string): Promise<CredentialSource> {
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  config.loadFromFile(file)
  if (context !== undefined) config.setCurrentContext(context)
  let tls: AgentOptions = {}
  let identity = ''
  let agent: Agent | undefined
  return {
    async read() {
      const options: RequestOptions = {}
      await config.applyToHTTPSOptions(options)
      const { ca, cert, key, passphrase, servername, rejectUnauthorized } = options
      const found = { ca, cert, key, passphrase, servername, rejectUnauthorized }
      const present = Object.fromEntries(Object.entries(found).filter(([, field]) => field !== undefined))
      const now = JSON.stringify(present)
      if (now !== identity) {
        tls = present
        agent = proxied && options.agent instanceof Agent ? options.agent : undefined
      }
      identity = now
      const headers = Object.entries(options.headers ?? {}).filter(
        (e): e is [string, string] => typeof e[1] === 'string',
      )
      return { headers: Object.fromEntries(headers), tls, ...(agent === undefined ? {} : { agent }) }
    },
    refused: () => undefined,
  }
}
