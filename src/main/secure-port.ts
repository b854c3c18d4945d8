// SPDX-License-Identifier: Apache-2.0
// Opens the TLS port of discovery with the certificate that there is, and keeps showing the newest. For serve.ts.

import { formatError } from '../base/errors.js'
import { formatListenAddress, type BoundAddress } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import type { ServerParts } from './server-parts.js'
import type { Settings } from './settings-table.js'

export interface SecurePortOptions {
  readonly settings: Settings
  readonly log: Logger
  readonly parts: ServerParts
  readonly signal: AbortSignal
}

const place = { flag: '--secureGRPCAddr' }

/** Undefined: off, or nothing to show. Rejects with Fatal when the address or the certificate cannot be had. */
export async function openSecurePort({
  settings,
  log,
  parts,
  signal,
}: SecurePortOptions): Promise<BoundAddress | undefined> {
  const { xds, certificates, authentication } = parts
  const address = settings.secureGrpcAddr
  if (address === undefined) return undefined
  const tls = await certificates.start(signal)
  if (tls === undefined) {
    log.warn(place, 'no certificate to serve with; the TLS port stays closed')
    return undefined
  }
  for (const warning of authentication.warnings) log.warn({ ...place, address: formatListenAddress(address) }, warning)
  const listener = await xds.listen({ ...address, tls, ...place })
  certificates.onChange((next) => {
    try {
      listener.setTls(next)
      log.info(place, 'the TLS port shows a new certificate')
    } catch (error) {
      log.error({ ...place, error: formatError(error) }, 'the new certificate cannot be shown; the old one stays')
    }
  })
  return { host: listener.host, port: listener.port }
}
