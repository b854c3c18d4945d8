// SPDX-License-Identifier: Apache-2.0
// A discovery server with a TLS port and a plaintext one, as the program puts it together, whose tokens a fake API server reviews. For tests of who may do what.

import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { parseSettings } from '../../src/base/settings.js'
import { createDebugTypes } from '../../src/debug/debug-types.js'
import { HttpKubeApi } from '../../src/kube/http-api.js'
import { createServerAuthentication } from '../../src/main/authentication.js'
import { settingsTable } from '../../src/main/settings-table.js'
import type { FrontTls } from '../../src/xds/front-tls.js'
import { createXdsServer, type XdsListener, type XdsServer } from '../../src/xds/server.js'
import { TestAuthority } from '../support/certificates.js'
import { FakeApiServer } from '../support/fake-apiserver.js'
import { XdsClient, type NodeFields, type XdsClientOptions } from '../support/xds-client.js'
import { CollectedLog } from '../xds/collected-log.js'
import { ToyStore } from '../xds/toy-store.js'
import { TokenIssuer, type TokenClaims } from './tokens.js'

export const ztunnel: TokenClaims = {
  namespace: 'istio-system',
  account: 'ztunnel',
  pod: { name: 'ztunnel-1', uid: 'uid-1' },
}

/** A ztunnel of istio-system, unless the metadata say otherwise. */
export function toNode(metadata: Readonly<Record<string, string>> = {}, namespace = 'istio-system'): NodeFields {
  return {
    id: `ztunnel~10.9.9.9~ztunnel-1.${namespace}~${namespace}.svc.cluster.local`,
    metadata: { NAMESPACE: 'istio-system', NODE_NAME: 'node1', CLUSTER_ID: 'Kubernetes', ...metadata },
  }
}

interface Parts {
  readonly api: FakeApiServer
  readonly kube: HttpKubeApi
  readonly issuer: TokenIssuer
  readonly log: CollectedLog
  readonly server: XdsServer
  readonly authority: TestAuthority
  readonly secure: XdsListener
  readonly plaintext: XdsListener
}

export class StreamRoom {
  readonly api: FakeApiServer
  readonly issuer: TokenIssuer
  readonly log: CollectedLog
  readonly authority: TestAuthority
  readonly secure: XdsListener
  readonly plaintext: XdsListener
  readonly #parts: Parts
  readonly #clients: XdsClient[] = []

  private constructor(parts: Parts) {
    this.#parts = parts
    this.api = parts.api
    this.issuer = parts.issuer
    this.log = parts.log
    this.authority = parts.authority
    this.secure = parts.secure
    this.plaintext = parts.plaintext
  }

  /** Serves six addresses; `env` are settings as environment names. */
  static async open(env: Readonly<Record<string, string>> = {}): Promise<StreamRoom> {
    const argv = ['--files', '/nowhere']
    const { settings } = parseSettings({ table: settingsTable, argv, env, ownPrefix: 'ADDRESSD_' })
    const issuer = new TokenIssuer()
    const api = new FakeApiServer()
    api.createAnswers.set('TokenReview', (review) => issuer.review(review))
    await api.start()
    const log = new CollectedLog()
    const noCredentials = { read: () => Promise.resolve({ headers: {}, tls: {} }), refused: () => undefined }
    const kube = new HttpKubeApi(api.url, noCredentials, systemClock)
    const trustDomains = (): readonly [string] => ['cluster.local']
    const access = createServerAuthentication({ settings, clock: systemClock, log, api: kube, trustDomains })
    const store = new ToyStore()
    store.commit(Array.from({ length: 6 }, (_, i) => ({ name: `pod/${i}` })))
    const server: XdsServer = createXdsServer({
      store,
      clock: systemClock,
      log,
      registry: new Registry(),
      access,
      debugTypes: createDebugTypes({
        store,
        clients: () => server.clients(),
        held: (id) => server.held(id),
        systemNamespace: settings.systemNamespace,
        access: access.debug,
        replica: 'addressd-0',
        build: { version: '1', revision: '' },
      }),
    })
    const authority = await TestAuthority.create()
    const tls = await toTls(authority)
    const secure = await server.listen({ host: '127.0.0.1', port: 0, tls })
    const plaintext = await server.listen({ host: '127.0.0.1', port: 0 })
    return new StreamRoom({ api, kube, issuer, log, server, authority, secure, plaintext })
  }

  /** A client of the TLS port that shows a token made from these claims. */
  connect(claims: TokenClaims = ztunnel, more: Partial<XdsClientOptions> = {}): XdsClient {
    const headers = { authorization: `Bearer ${this.issuer.issue(claims)}`, clusterid: 'Kubernetes' }
    return this.client({ headers, ...more })
  }

  /** A client of the TLS port that shows what it is told to. */
  client(options: Partial<XdsClientOptions>): XdsClient {
    return this.#keep(new XdsClient({ port: this.secure.port, ca: this.authority.cert, node: toNode(), ...options }))
  }

  plaintextClient(options: Partial<XdsClientOptions> = {}): XdsClient {
    return this.#keep(new XdsClient({ port: this.plaintext.port, node: toNode(), ...options }))
  }

  reviews(): number {
    return this.api.requests('TokenReview').any
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.destroy()
    await this.#parts.server.close()
    this.#parts.kube.close()
    await this.#parts.api.stop()
  }

  #keep(client: XdsClient): XdsClient {
    this.#clients.push(client)
    return client
  }
}

/** A server certificate for localhost; client certificates of the same authority count. */
export async function toTls(authority: TestAuthority): Promise<FrontTls> {
  return { ...(await authority.issue({ dns: ['localhost'] })), clientCa: authority.cert }
}
