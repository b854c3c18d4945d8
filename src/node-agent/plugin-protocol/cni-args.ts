// SPDX-License-Identifier: Apache-2.0
// CNI_ARGS: `K=V;K=V`, as kubelet's runtimes fill it. Reads the keys of Kubernetes and knows no others.

import { CniRefusal, refusalCodes } from './refusal.js'

/** Empty text where a key is absent. */
export interface CniArgs {
  readonly podNamespace: string
  readonly podName: string
  readonly podUid: string
}

const knownKeys = new Set([
  'IgnoreUnknown',
  'K8S_POD_NAME',
  'K8S_POD_NAMESPACE',
  'K8S_POD_INFRA_CONTAINER_ID',
  'K8S_POD_UID',
])

/** Throws CniRefusal (999) for a piece that is no pair, and for unknown keys unless `IgnoreUnknown` is true. The last of several equal keys counts. */
export function parseCniArgs(text: string): CniArgs {
  const pairs = new Map<string, string>()
  for (const piece of text === '' ? [] : text.split(';')) {
    const [key, value, more] = piece.split('=')
    if (key === undefined || value === undefined || more !== undefined) {
      throw refuse(`CNI_ARGS has "${piece}", which is not KEY=VALUE; the runtime must send pairs with ";" between them`)
    }
    pairs.set(key, value)
  }
  const ignoreUnknown = parseTruth(pairs.get('IgnoreUnknown'))
  const unknown = [...pairs.keys()].filter((key) => !knownKeys.has(key))
  if (unknown.length > 0 && !ignoreUnknown) {
    throw refuse(
      `CNI_ARGS has unknown keys (${unknown.join(', ')}); the runtime must leave them out or add IgnoreUnknown=1`,
    )
  }
  return {
    podNamespace: pairs.get('K8S_POD_NAMESPACE') ?? '',
    podName: pairs.get('K8S_POD_NAME') ?? '',
    podUid: pairs.get('K8S_POD_UID') ?? '',
  }
}

function parseTruth(text: string | undefined): boolean {
  const word = text?.toLowerCase()
  if (word === undefined || word === '0' || word === 'false') return false
  if (word === '1' || word === 'true') return true
  throw refuse(`CNI_ARGS has IgnoreUnknown=${text ?? ''}; it takes 1, true, 0 or false`)
}

function refuse(message: string): CniRefusal {
  return new CniRefusal(refusalCodes.own, message)
}
