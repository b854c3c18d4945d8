// SPDX-License-Identifier: Apache-2.0
// Everything about certificates that one server has: the authority, what it shows on its TLS port, whom it signs for, where roots are given out.
// For serve.ts, which opens the port.

import { readFile } from 'node:fs/promises'
import type { Registry } from 'prom-client'
import type { Authentication } from '../auth/authentication.js'
import type { Clock } from '../base/clock.js'
import { Fatal, InvalidInput, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { Authority } from '../ca/authority.js'
import { addCertificateService } from '../ca/certificate-service.js'
import { chooseAuthority } from '../ca/choose-authority.js'
import { CertificateMetrics } from '../ca/metrics.js'
import { createFileRootStore } from '../ca/root-file.js'
import { createSecretRootStore, rootSecretName } from '../ca/root-secret.js'
import { ServerCertificate, selectServerNames } from '../ca/server-certificate.js'
import { Signer } from '../ca/signer.js'
import { formatRoots } from '../ca/signing-bundle.js'
import type { LeaderTask } from '../control/controllers.js'
import type { KubeApi } from '../kube/api.js'
import { readCredentials } from '../xds/caller.js'
import type { FrontTls } from '../xds/front-tls.js'
import type { XdsServer } from '../xds/server.js'
import { createConfigMapAccess, createSecretAccess } from './ca-objects.js'
import { createNodeIdentities } from './node-identities.js'
import { createRootDistribution } from './root-distribution.js'
import type { ServedGraph } from './served-graph.js'
import type { Settings } from './settings-table.js'

export interface CertificatesOptions {
  readonly settings: Settings
  readonly served: ServedGraph
  /** Undefined: objects come from files. */
  readonly api: KubeApi | undefined
  readonly authentication: Authentication
  readonly trustDomain: () => string
  readonly isLeader: () => boolean
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  readonly random: () => number
}

export class Certificates {
  readonly #options: CertificatesOptions
  readonly #authority: Authority | undefined
  readonly #own: ServerCertificate | undefined

  private constructor(options: CertificatesOptions, authority: Authority | undefined) {
    this.#options = options
    this.#authority = authority
    const { settings, clock, api } = options
    const log = options.log.child({ scope: 'ca' })
    this.#own =
      authority === undefined || settings.tlsCertFile !== ''
        ? undefined
        : new ServerCertificate({
            authority,
            clock,
            log,
            names: selectServerNames({
              namespace: settings.systemNamespace,
              revision: settings.revision,
              customHosts: settings.customHosts.split(','),
              isLocal: api === undefined,
            }),
          })
  }

  /** Rejects with Fatal when what is plugged in cannot be used. Starts nothing. */
  static async create(options: CertificatesOptions): Promise<Certificates> {
    const { settings } = options
    if (settings.secureGrpcAddr === undefined || !settings.enableCa) return new Certificates(options, undefined)
    try {
      return new Certificates(options, await createAuthority(options))
    } catch (error) {
      throw new Fatal(`no certificate authority: ${formatError(error)} (ROOT_CA_DIR, ADDRESSD_ROOT_FILE)`, error)
    }
  }

  /** What whoever trusts us is to trust, in PEM; undefined before start() or without an authority. */
  get roots(): string | undefined {
    const bundle = this.#authority?.bundle
    return bundle === undefined ? undefined : formatRoots(bundle)
  }

  /** Looks at once whether the root changed where it is kept, as is done every so often anyway. */
  async check(): Promise<void> {
    await this.#authority?.check()
  }

  /** Work of the leader; to be asked for before the first commit. */
  get leaderTasks(): readonly LeaderTask[] {
    const { settings, served, api, clock, random } = this.#options
    const authority = this.#authority
    if (api === undefined || authority === undefined) return []
    const log = this.#options.log.child({ scope: 'ca' })
    const maps = createConfigMapAccess(api, clock)
    const { rootMapName, crlMapName, enableCrl: hasCrl, clusterId: cluster } = settings
    const distribution = { authority, maps, clock, log, rootMapName, crlMapName, hasCrl, random }
    return [createRootDistribution({ distribution, served, api, cluster, clock, log, random })]
  }

  /** Signs for callers of the TLS port, if there is something to sign with. */
  addTo(xds: XdsServer): void {
    const { settings, served, authentication, trustDomain, clock, registry } = this.#options
    const authority = this.#authority
    if (authority === undefined) return
    const log = this.#options.log.child({ scope: 'ca' })
    const metrics = new CertificateMetrics(registry)
    metrics.watch(authority, clock)
    const signer = new Signer({
      authority,
      clock,
      defaultTtlSeconds: settings.workloadTtlMs / 1000,
      maxTtlSeconds: settings.maxWorkloadTtlMs / 1000,
    })
    const nodes = createNodeIdentities(served.inputs, settings.clusterId)
    xds.addInner((server) => {
      addCertificateService(server, {
        signer,
        nodes,
        metrics,
        clock,
        log,
        trustedAccounts: settings.caTrustedNodeAccounts.accounts,
        trustDomains: () => [trustDomain()],
        isServed: ({ metadata }) => readCredentials(metadata).secure,
        isLocalCluster: (id) => id === '' || id === settings.clusterId,
        authenticate: ({ metadata }) => authentication.authenticate(readCredentials(metadata)),
        patienceMs: settings.signerPatienceMs,
      })
    })
  }

  /** What to show on the TLS port once it can be shown; undefined: nothing. Keeps it fresh until the signal aborts. */
  async start(signal: AbortSignal): Promise<FrontTls | undefined> {
    const { settings } = this.#options
    if (settings.secureGrpcAddr === undefined) return undefined
    try {
      await this.#authority?.start(signal)
    } catch (error) {
      throw error instanceof InvalidInput ? new Fatal(`no certificate authority: ${error.message}`, error) : error
    }
    if (this.#own !== undefined) await this.#own.start(signal)
    return await this.#show()
  }

  /** Calls back with what to show from now on, whenever that changes. */
  onChange(listener: (tls: FrontTls) => void): void {
    const { log } = this.#options
    const tell = (): void => {
      this.#show().then(
        (tls) => {
          if (tls !== undefined) listener(tls)
        },
        (error: unknown) =>
          log.error({ error: formatError(error) }, 'the new certificate of the TLS port cannot be shown'),
      )
    }
    if (this.#own === undefined) this.#authority?.onChange(tell)
    else this.#own.onChange(tell)
  }

  async #show(): Promise<FrontTls | undefined> {
    const { tlsCertFile, tlsKeyFile, caCertFile } = this.#options.settings
    const more = caCertFile === '' ? '' : await readSetting(caCertFile, '--caCertFile')
    if (tlsCertFile === '') {
      const own = this.#own?.current
      return own === undefined ? undefined : { ...own, clientCa: own.clientCa + more }
    }
    const clientCa = (this.roots ?? '') + more
    return {
      cert: await readSetting(tlsCertFile, '--tlsCertFile'),
      key: await readSetting(tlsKeyFile, '--tlsKeyFile'),
      ...(clientCa === '' ? {} : { clientCa }),
    }
  }
}

async function readSetting(file: string, flag: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new Fatal(`${flag}: ${formatError(error)}`, error)
  }
}

async function createAuthority(options: CertificatesOptions): Promise<Authority> {
  const { settings, api, clock, trustDomain, isLeader, random } = options
  const log = options.log.child({ scope: 'ca' })
  return chooseAuthority({
    pluggedIn: { folder: settings.rootCaDir, clock, log, isMultiRoot: settings.multiRoot },
    isFolderSelfSigned: settings.useCacertsForSelfSigned,
    selfSigned: {
      store: api === undefined ? createFileRootStore(settings.rootFile) : createSecretStore(api, settings, clock),
      trustDomain,
      // Files have one owner.
      isLeader: api === undefined ? () => true : isLeader,
      lifetimeMs: settings.rootTtlMs,
      keyKind: settings.rootKeyBits,
      checkIntervalMs: settings.rootCheckMs,
      random,
    },
  })
}

function createSecretStore(api: KubeApi, settings: Settings, clock: Clock): ReturnType<typeof createSecretRootStore> {
  const namespace = settings.systemNamespace
  const maps = createConfigMapAccess(api, clock)
  return createSecretRootStore(createSecretAccess(api, { namespace, name: rootSecretName }, clock), {
    readPublished: async (signal) =>
      (await maps.read(namespace, settings.rootMapName, signal))?.values['root-cert.pem'],
  })
}
