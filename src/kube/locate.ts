// SPDX-License-Identifier: Apache-2.0
// Which version of a kind's API group the server has. For the reflector: kinds that a CRD defines may be absent, or known only in an older
// version.

import type { Clock } from '../base/clock.js'
import { readBody, type KubeApi } from './api.js'
import { isJsonObject } from './part.js'
import { kubeLimits } from './limits.js'
import { HttpFailure, sendChecked, withDeadline } from './requests.js'
import type { ResourceType } from './resources.js'

/**
 * The versions of the kind's group that the server serves and we can read, best first; empty when it has no such group. That the group is
 * there does not say that the kind is. Who may not ask gets all versions that we know.
 */
export async function selectVersions(
  api: KubeApi,
  type: ResourceType,
  clock: Clock,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (!type.custom) return type.versions
  try {
    return await withDeadline(clock, kubeLimits.connectTimeoutMs, signal, async (inner) => {
      const response = await sendChecked(api, { path: `/apis/${type.group}` }, `discover ${type.group}`, inner)
      const served = parseServed((await readBody(response)).toString('utf8'))
      return type.versions.filter((version) => served.includes(version))
    })
  } catch (error) {
    if (error instanceof HttpFailure && error.status === 404) return []
    if (error instanceof HttpFailure && error.status === 403) return type.versions
    throw error
  }
}

function parseServed(text: string): readonly string[] {
  const group: unknown = JSON.parse(text)
  const versions = isJsonObject(group) && Array.isArray(group.versions) ? (group.versions as readonly unknown[]) : []
  return versions.flatMap((v) => (isJsonObject(v) && typeof v.version === 'string' ? [v.version] : []))
}
