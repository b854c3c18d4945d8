// SPDX-License-Identifier: Apache-2.0
// Chooses where objects come from: a folder, or an API server by kubeconfig or by what a pod is given. Starts nothing.

import type { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { KubeApi } from '../kube/api.js'
import { createKubeApi } from '../kube/client.js'
import type { Feed } from '../kube/feed.js'
import { createFileFeed } from '../kube/file-feed.js'
import type { Inputs } from '../kube/inputs.js'
import { createKubeFeed } from '../kube/kube-feed.js'
import type { Kind } from '../kube/records.js'

/** The settings that say where objects come from; every program that reads some has them. */
export interface FeedSettings {
  readonly kubeconfig: string
  readonly files: string
  readonly kubernetesHost: string
  readonly kubernetesPort: number
  readonly clusterId: string
  readonly systemNamespace: string
  readonly revision: string
}

export interface FeedOptions {
  readonly settings: FeedSettings
  readonly inputs: Inputs
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  /** Read from this API server, whatever the settings say. */
  readonly api?: KubeApi | undefined
  /** Ask an API server for these kinds alone, and for the pods of one node alone. */
  readonly only?: { readonly kinds: readonly Kind[]; readonly node: string }
}

export interface ChosenFeed {
  readonly feed: Feed
  /** Where it reads from, for those who write back; undefined for files. */
  readonly api: KubeApi | undefined
  /** Lets go of connections. To be called when the feed has ended. */
  close(): void
}

/** Rejects with Fatal when the credentials cannot be read. */
export async function createFeed(options: FeedOptions): Promise<ChosenFeed> {
  const { settings, inputs, clock, registry } = options
  const log = options.log.child({ scope: 'kube' })
  const place = {
    inputs,
    cluster: settings.clusterId,
    systemNamespace: settings.systemNamespace,
    revision: settings.revision,
    clock,
    log,
  }
  if (options.api === undefined && settings.files !== '') {
    return { feed: createFileFeed({ ...place, folder: settings.files }), api: undefined, close: () => undefined }
  }
  const api = options.api ?? (await openApi(settings, clock))
  const close = (): void => {
    if (options.api === undefined) api.close()
  }
  return { feed: createKubeFeed({ ...place, api, registry, ...options.only }), api, close }
}

function openApi(settings: FeedSettings, clock: Clock): Promise<KubeApi> {
  if (settings.kubeconfig !== '') return createKubeApi({ kubeconfig: settings.kubeconfig, clock })
  const { kubernetesHost: host, kubernetesPort: port } = settings
  return createKubeApi(host === '' ? { clock } : { inCluster: { host, port: String(port) }, clock })
}
