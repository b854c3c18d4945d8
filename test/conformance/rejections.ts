// SPDX-License-Identifier: Apache-2.0
// Why a ztunnel would reject the bytes of a resource, as far as recorded rejections say. Reads only; says nothing about what the bytes mean.

import { decodeAddress } from '../../src/wire/address-decoder.js'
import { toAuthorizationJson } from '../../src/wire/authorization-json.js'
import type { GatewayAddress, ServiceMessage, WorkloadMessage } from '../../src/wire/messages.js'

/** Undefined: it would be taken. */
export function selectRejection(type: 'Address' | 'Authorization', bytes: Uint8Array): string | undefined {
  try {
    if (type === 'Authorization') return judgePolicy(bytes)
    const decoded = decodeAddress(bytes)
    return decoded.kind === 'workload' ? judgeWorkload(decoded.workload) : judgeService(decoded.service)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const isIp = ({ length }: Uint8Array): boolean => length === 4 || length === 16

function judgeGateway(gateway: GatewayAddress | undefined): string | undefined {
  if (gateway === undefined || gateway.hostname !== undefined) return undefined
  if (gateway.address === undefined) return 'a gateway without an address'
  return isIp(gateway.address.address) ? undefined : 'a gateway whose address is none'
}

const first = (...reasons: readonly (string | undefined)[]): string | undefined =>
  reasons.find((reason) => reason !== undefined)

const when = (isBad: boolean, reason: string): string | undefined => (isBad ? reason : undefined)

function judgeWorkload(workload: WorkloadMessage): string | undefined {
  return first(
    when(!workload.addresses.every(isIp), 'an address that is none'),
    when(workload.tunnelProtocol > 1, 'a tunnel protocol that it does not speak'),
    when(workload.status > 1, 'an unknown status'),
    when(workload.networkMode > 1, 'an unknown network mode'),
    when((workload.applicationTunnel?.protocol ?? 0) > 1, 'an unknown protocol of an application tunnel'),
    when(![...workload.services.keys()].every((key) => key.includes('/')), 'a service without a namespace'),
    judgeGateway(workload.waypoint),
    judgeGateway(workload.networkGateway),
  )
}

function judgeService(service: ServiceMessage): string | undefined {
  const { loadBalancing: balancing } = service
  return first(
    when(!service.addresses.every(({ address }) => isIp(address)), 'an address that is none'),
    when(
      service.addresses.some(({ address, length = 0 }) => length > address.length * 8),
      'a prefix that is too long',
    ),
    when(service.ipFamilies > 3, 'unknown families'),
    when(balancing?.routingPreference.some((scope) => scope < 1 || scope > 6) === true, 'an unknown preference'),
    when((balancing?.mode ?? 0) > 3, 'an unknown mode'),
    when((balancing?.healthPolicy ?? 0) > 1, 'an unknown health policy'),
    judgeGateway(service.waypoint),
    ...service.weightedWaypoints.map(({ destination }) =>
      destination === undefined ? 'a weighted waypoint without destination' : judgeGateway(destination),
    ),
  )
}

/** JSON names the values that are known and numbers the others. */
function judgePolicy(bytes: Uint8Array): string | undefined {
  const { scope = 'GLOBAL', action = 'ALLOW' } = toAuthorizationJson(bytes, { ip: 'bytes' })
  return first(when(/^\d/.test(scope), 'an unknown scope'), when(/^\d/.test(action), 'an unknown action'))
}
