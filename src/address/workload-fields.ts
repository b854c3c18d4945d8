// SPDX-License-Identifier: Apache-2.0
// Field rules that workloads of several sources share: telemetry names, tunnel, address, locality. Pure.

import { parseIp } from '../base/ip.js'
import type { Labels } from '../kube/records.js'
import { TunnelProtocol, type Locality, type WorkloadMessage } from '../wire/messages.js'
import { annotationKeys, firstLabelOf, labelKeys, labelOf } from './labels.js'

const nameKeys = ['service.istio.io/canonical-name', 'app.kubernetes.io/name', 'app'] as const
const revisionKeys = ['service.istio.io/canonical-revision', 'app.kubernetes.io/version', 'version'] as const

/** The names that telemetry uses; a label that is there counts even when empty. */
export function toCanonical(
  labels: Labels | undefined,
  workloadName: string,
): Pick<WorkloadMessage, 'canonicalName' | 'canonicalRevision'> {
  return {
    canonicalName: firstLabelOf(labels, nameKeys) ?? workloadName,
    canonicalRevision: firstLabelOf(labels, revisionKeys) ?? 'latest',
  }
}

/** HBONE by the mark of whoever captures the pod, or because the workload says it terminates tunnels itself. */
export function toTunnel(
  labels: Labels | undefined,
  annotations: Labels | undefined,
): Pick<WorkloadMessage, 'tunnelProtocol' | 'nativeTunnel'> {
  const nativeTunnel = labelOf(labels, labelKeys.tunnel)?.split(',').includes('http') ?? false
  const captured = labelOf(annotations, annotationKeys.redirection) === 'enabled'
  return { tunnelProtocol: nativeTunnel || captured ? TunnelProtocol.HBONE : TunnelProtocol.NONE, nativeTunnel }
}

/** An IP address, or else the text as a host name, whatever it is. */
export function toEndpointAddress(text: string): Pick<WorkloadMessage, 'addresses' | 'hostname'> {
  const ip = parseIp(text)
  return ip === undefined ? { addresses: [], hostname: text } : { addresses: [ip], hostname: '' }
}

/** `region/zone/subzone`; further parts are passed over; undefined when all are empty. */
export function parseLocality(text: string): Locality | undefined {
  const [region = '', zone = '', subzone = ''] = text.split('/')
  return toLocality({ region, zone, subzone })
}

/** Undefined when all parts are empty. */
export function toLocality(parts: Locality | undefined): Locality | undefined {
  if (parts === undefined) return undefined
  const { region, zone, subzone } = parts
  return region === '' && zone === '' && subzone === '' ? undefined : { region, zone, subzone }
}
