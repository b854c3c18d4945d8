// SPDX-License-Identifier: Apache-2.0
// What is counted of certificates, under the names that dashboards for this kind of authority already use. A number is there once it has counted.

import { Counter, Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Authority } from './authority.js'
import type { SigningFault } from './signer.js'

const helps = {
  citadel_server_csr_count: 'Requests for certificates.',
  citadel_server_authentication_failure_count:
    'Requests of callers that did not prove who they are, or asked for what is not theirs.',
  citadel_server_id_extraction_err_count:
    'Requests of callers that proved who they are, but have no name for a certificate.',
  citadel_server_success_cert_issuance_count: 'Certificates given out.',
} as const

type CounterName = keyof typeof helps

export class CertificateMetrics {
  readonly #registry: Registry
  readonly #counters = new Map<CounterName, Counter>()
  #faults: Counter<'error'> | undefined

  constructor(registry: Registry) {
    this.#registry = registry
  }

  count(name: CounterName): void {
    let counter = this.#counters.get(name)
    if (counter === undefined) {
      counter = new Counter({ name, help: helps[name], registers: [this.#registry] })
      this.#counters.set(name, counter)
    }
    counter.inc()
  }

  countFault(error: SigningFault | 'UNKNOWN'): void {
    this.#faults ??= new Counter({
      name: 'citadel_server_csr_sign_err_count',
      help: 'Requests that were not signed, by what was wrong.',
      labelNames: ['error'],
      registers: [this.#registry],
    })
    this.#faults.inc({ error })
  }

  /** To be called once: from then on the ends of roots and chain are read when somebody asks. */
  watch(authority: Authority, clock: Clock): void {
    const ends = {
      root: () => authority.bundle?.rootsNotAfterMs,
      cert_chain: () => authority.bundle?.chainNotAfterMs,
    }
    for (const [what, read] of Object.entries(ends)) {
      const prefix = what === 'root' ? 'citadel_server_root_cert' : 'citadel_server_cert_chain'
      const name = what === 'root' ? 'first root' : 'first certificate of the chain'
      this.#gauge(`${prefix}_expiry_timestamp`, `End of the ${name}, in seconds since 1970.`, () => {
        const endMs = read()
        return endMs === undefined ? undefined : endMs / 1000
      })
      this.#gauge(`${prefix}_expiry_seconds`, `Seconds until the end of the ${name}.`, () => {
        const endMs = read()
        return endMs === undefined ? undefined : (endMs - clock.now()) / 1000
      })
    }
  }

  #gauge(name: string, help: string, read: () => number | undefined): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        const value = read()
        if (value === undefined) this.remove()
        else this.set(value)
      },
    }).remove()
  }
}
