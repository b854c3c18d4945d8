// SPDX-License-Identifier: Apache-2.0
// A kubeconfig file's current context, and the credentials that a pod finds in its own file system. For client.ts. Runs no program:
// users that need one (exec, auth-provider) are only told apart here.

import { readFile, stat } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import type { AgentOptions } from 'node:https'
import path from 'node:path'
import type { Clock } from '../base/clock.js'
import { InvalidInput, formatError } from '../base/errors.js'
import type { CredentialSource, Credentials } from './http-api.js'
import { Part, isJsonObject } from './part.js'
import { parseYaml } from './yaml.js'

/** What the current context of a kubeconfig names. */
export interface KubeTarget {
  readonly server: string
  readonly tls: AgentOptions
  readonly token: string | undefined
  readonly tokenFile: string | undefined
  /** User and password, as `user:password`. */
  readonly basic: string | undefined
  /** Something that only a full client can do: a credential program, a provider, a proxy. */
  readonly foreign: string | undefined
}

/** Reads a kubeconfig's text; relative paths in it start at `directory`. Throws InvalidInput naming what is missing. */
export function parseKubeconfig(text: string, directory: string, context?: string): KubeTarget {
  let value: unknown
  try {
    value = parseYaml(text)
  } catch (error) {
    throw new InvalidInput(`kubeconfig: it is not YAML: ${formatError(error)}`, error)
  }
  if (!isJsonObject(value)) throw new InvalidInput('kubeconfig: it is empty')
  const top = new Part(value, '', 'kubeconfig')
  const contextName = context ?? top.text('current-context')
  const chosen = selectNamed(top, 'contexts', contextName).part('context')
  const cluster = selectNamed(top, 'clusters', chosen?.text('cluster') ?? '').part('cluster')
  const userName = chosen?.text('user') ?? ''
  const user = userName === '' ? undefined : selectNamed(top, 'users', userName).part('user')
  const server = cluster?.text('server') ?? ''
  if (server === '') throw new InvalidInput(`kubeconfig: the cluster of context ${contextName} has no server`)
  const bytes = (part: Part | undefined, name: string): Buffer | undefined => {
    const inline = part?.text(`${name}-data`) ?? ''
    if (inline !== '') return Buffer.from(inline, 'base64')
    const file = part?.text(name) ?? ''
    return file === '' ? undefined : readFileSync(path.resolve(directory, file))
  }
  const present = (fields: Record<string, unknown>): AgentOptions =>
    Object.fromEntries(Object.entries(fields).filter(([, field]) => field !== undefined))
  const tokenFile = user?.text('tokenFile') ?? ''
  const name = user?.text('username') ?? ''
  return {
    server,
    tls: present({
      ca: bytes(cluster, 'certificate-authority'),
      cert: bytes(user, 'client-certificate'),
      key: bytes(user, 'client-key'),
      servername: cluster?.optionalText('tls-server-name'),
      rejectUnauthorized: cluster?.flag('insecure-skip-tls-verify') === true ? false : undefined,
    }),
    token: user?.optionalText('token'),
    tokenFile: tokenFile === '' ? undefined : path.resolve(directory, tokenFile),
    basic: name === '' ? undefined : `${name}:${user?.text('password') ?? ''}`,
    foreign: user?.has('exec')
      ? 'exec'
      : user?.has('auth-provider')
        ? 'auth-provider'
        : cluster?.has('proxy-url')
          ? 'proxy-url'
          : undefined,
  }
}

function selectNamed(top: Part, list: string, name: string): Part {
  const found = top.parts(list).find((item) => item.text('name') === name)
  if (found === undefined) throw new InvalidInput(`kubeconfig: ${list} has none named ${JSON.stringify(name)}`)
  return found
}

/** A token file is read again after this long, and when the server refused the token. */
export const tokenRereadMs = 60_000

/** Credentials that stand in files and texts. A token file is re-read: tokens rotate. */
export class FileCredentials implements CredentialSource {
  readonly #target: KubeTarget
  readonly #clock: Clock
  readonly #caFile: string | undefined
  #tls: AgentOptions
  #caChanged = 0
  #token: string | undefined
  #readAt = -Infinity

  /** `caFile` replaces the target's CA and is looked at whenever the token is. */
  constructor(target: KubeTarget, clock: Clock, caFile?: string) {
    this.#target = target
    this.#clock = clock
    this.#tls = target.tls
    this.#caFile = caFile
  }

  async read(): Promise<Credentials> {
    const { token, tokenFile, basic } = this.#target
    if (this.#clock.monotonic() - this.#readAt >= tokenRereadMs) {
      if (tokenFile !== undefined) this.#token = (await readFile(tokenFile, 'utf8')).trim()
      if (this.#caFile !== undefined) await this.#readCa(this.#caFile)
      this.#readAt = this.#clock.monotonic()
    }
    const bearer = this.#token ?? token
    const authorization =
      bearer !== undefined
        ? `Bearer ${bearer}`
        : basic !== undefined
          ? `Basic ${Buffer.from(basic).toString('base64')}`
          : undefined
    return { headers: authorization === undefined ? {} : { authorization }, tls: this.#tls }
  }

  refused(): void {
    this.#readAt = -Infinity
  }

  async #readCa(file: string): Promise<void> {
    const { mtimeMs } = await stat(file)
    if (mtimeMs === this.#caChanged) return
    this.#tls = { ...this.#target.tls, ca: await readFile(file) }
    this.#caChanged = mtimeMs
  }
}
