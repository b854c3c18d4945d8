// SPDX-License-Identifier: Apache-2.0
// The agent's settings as its parts want them: paths of the host put together, texts parsed. Opens nothing.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { InvalidInput } from '../base/errors.js'
import type { NodeAgentSettings } from '../node-agent/agent-parts.js'
import { parseEnablementSelectors } from '../node-agent/eligibility.js'
import type { NodeSettings } from './node-settings-table.js'

/** Where the host's files are seen from here. */
export interface HostPlaces {
  /** Put before every path that the runtime names; empty where its paths are ours. */
  readonly prefix: string
  readonly procRoot: string
  /** Plugins ask here. */
  readonly pluginSocket: string
  /** The plugin of istio-cni sends its log here. */
  readonly logSocket: string
  /** People ask here. */
  readonly nodeSocket: string
}

export function toHostPlaces(settings: NodeSettings): HostPlaces {
  // A container sees the host below /host; whoever is started on the host itself sees it as it is.
  const found = settings.hostRoot !== '' ? settings.hostRoot : existsSync('/host/proc') ? '/host' : '/'
  const prefix = found.replace(/\/+$/, '')
  return {
    prefix,
    procRoot: settings.hostProc !== '' ? settings.hostProc : `${prefix}/proc`,
    pluginSocket: join(settings.runFolder, 'pluginevent.sock'),
    logSocket: join(settings.runFolder, 'log.sock'),
    nodeSocket: join(settings.runFolder, 'node.sock'),
  }
}

/** Throws InvalidInput for selectors that are none. */
export function toAgentSettings(settings: NodeSettings): NodeAgentSettings {
  return {
    cluster: settings.clusterId,
    node: settings.nodeName,
    systemNamespace: settings.systemNamespace,
    revision: settings.revision,
    selectors: toSelectors(settings.enablementSelectors),
    excludedNamespaces: new Set(settings.excludeNamespaces),
    ipv6: settings.ipv6,
    dnsCapture: settings.dnsCapture,
    probeAddress4: settings.probeAddress4,
    probeAddress6: settings.probeAddress6,
  }
}

function toSelectors(text: string): NodeAgentSettings['selectors'] {
  try {
    return parseEnablementSelectors(text)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    throw new InvalidInput(`AMBIENT_ENABLEMENT_SELECTOR: ${error.message}`, error)
  }
}
