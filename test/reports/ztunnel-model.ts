// SPDX-License-Identifier: Apache-2.0
// What a ztunnel would hold after a series of responses: resources by name, owners of an IP, endpoints of a service. Never talks to anybody.

export interface ReceivedResource {
  readonly name: string
  readonly version: string
  readonly aliases: readonly string[]
  /** proto3 JSON of the Workload, Service or Authorization, IPs as text. */
  readonly json: Record<string, unknown>
}

export interface ReceivedResponse {
  readonly typeUrl: string
  readonly nonce: string
  readonly resources: readonly ReceivedResource[]
  readonly removed: readonly string[]
}

interface HeldService {
  readonly json: Record<string, unknown>
  endpoints: Set<string>
}

export class ZtunnelModel {
  readonly held = new Map<string, ReceivedResource>()
  readonly #services = new Map<string, HeldService>()
  readonly #staged = new Map<string, Set<string>>()

  /** Applies one response: resources in order, then removals. */
  apply(response: ReceivedResponse): void {
    for (const resource of response.resources) {
      this.held.set(resource.name, resource)
      if (isService(resource)) this.#insertService(resource)
      else this.#insertWorkload(resource)
    }
    for (const name of response.removed) this.#remove(name)
  }

  /** Workloads with this `network/ip`, host-network ones left out. */
  owners(key: string): string[] {
    return [...this.held.values()]
      .filter((r) => !isService(r) && r.json['networkMode'] !== 'HOST_NETWORK')
      .filter((r) => textList(r.json['addresses']).some((ip) => `${text(r.json['network'])}/${ip}` === key))
      .map((r) => r.name)
  }

  /** `servicePort->ip:targetPort` of every endpoint that could be picked. */
  endpoints(service: string): string[] {
    const entry = this.#services.get(service)
    if (entry === undefined) return []
    const own = new Map(portList(entry.json['ports']).map((p) => [p.servicePort, p.targetPort]))
    const out: string[] = []
    for (const name of entry.endpoints) {
      const workload = this.held.get(name)
      if (workload === undefined) continue
      const ports = portList((servicesOf(workload)[service] as { ports?: unknown } | undefined)?.ports)
      for (const address of textList(workload.json['addresses'])) {
        const host = address.includes(':') ? `[${address}]` : address
        for (const p of ports) out.push(`${p.servicePort}->${host}:${p.targetPort || (own.get(p.servicePort) ?? 0)}`)
      }
    }
    return out
  }

  #insertWorkload(workload: ReceivedResource): void {
    this.#forgetEndpoint(workload.name)
    for (const key of Object.keys(servicesOf(workload))) {
      const service = this.#services.get(key)
      if (service === undefined) {
        const staged = this.#staged.get(key) ?? new Set()
        this.#staged.set(key, staged.add(workload.name))
      } else if (accepts(service.json, workload)) service.endpoints.add(workload.name)
    }
  }

  #insertService(resource: ReceivedResource): void {
    const candidates = this.#services.get(resource.name)?.endpoints ?? this.#staged.get(resource.name) ?? new Set()
    this.#staged.delete(resource.name)
    const endpoints = [...candidates].filter((name) => {
      const workload = this.held.get(name)
      return workload !== undefined && accepts(resource.json, workload)
    })
    this.#services.set(resource.name, { json: resource.json, endpoints: new Set(endpoints) })
  }

  #remove(name: string): void {
    this.held.delete(name)
    this.#services.delete(name)
    this.#staged.delete(name)
    this.#forgetEndpoint(name)
  }

  #forgetEndpoint(name: string): void {
    for (const service of this.#services.values()) service.endpoints.delete(name)
    for (const staged of this.#staged.values()) staged.delete(name)
  }
}

function isService(resource: ReceivedResource): boolean {
  return resource.json['uid'] === undefined && resource.json['hostname'] !== undefined
}

function accepts(service: Record<string, unknown>, workload: ReceivedResource): boolean {
  const policy = (service['loadBalancing'] as { healthPolicy?: string } | undefined)?.healthPolicy
  return workload.json['status'] !== 'UNHEALTHY' || policy === 'ALLOW_ALL'
}

function servicesOf(workload: ReceivedResource): Record<string, unknown> {
  return (workload.json['services'] as Record<string, unknown> | undefined) ?? {}
}

function portList(value: unknown): { servicePort: number; targetPort: number }[] {
  const list = (value as { servicePort?: number; targetPort?: number }[] | undefined) ?? []
  return list.map((p) => ({ servicePort: p.servicePort ?? 0, targetPort: p.targetPort ?? 0 }))
}

function textList(value: unknown): string[] {
  return (value as string[] | undefined) ?? []
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
