// SPDX-License-Identifier: Apache-2.0
// Says, once for each, which namespaces ask for the mesh by their labels and are left out of it by its discovery selectors: their pods would be captured
// and served by nobody. For people who wonder why nothing happens.

import type { Logger } from '../base/log.js'
import type { Graph } from '../collection/types.js'
import { isNamespaceSelected, type EnablementSelector, type NamespaceView } from './eligibility.js'
import type { PodWishes } from './pod-wishes.js'

/** Follows the tables; also speaks of a namespace in which only a pod asks for it. */
export function tellLeftOutNamespaces(
  graph: Graph,
  wishes: PodWishes,
  selectors: readonly EnablementSelector[],
  log: Logger,
): void {
  const told = new Set<string>()
  const tell = (namespace: string): void => {
    if (told.has(namespace)) return
    told.add(namespace)
    log.info(
      { namespace, setting: 'meshConfig.discoverySelectors' },
      'a namespace asks for the mesh but the discovery selectors leave it out; its pods are not enrolled',
    )
  }
  graph.onCommit<NamespaceView>(wishes.namespaces, (changes) => {
    for (const { old, now } of changes) {
      if (now === undefined || now.discovered) told.delete((now ?? old)?.name ?? '')
      else if (!now.excluded && isNamespaceSelected(now.labels, selectors)) tell(now.name)
    }
  })
  graph.onCommit(wishes.pods, (changes) => {
    for (const { now } of changes) {
      if (now !== undefined && !now.verdict.eligible && now.verdict.why === 'undiscovered-namespace')
        tell(now.pod.namespace)
    }
  })
}
