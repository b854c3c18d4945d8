// SPDX-License-Identifier: Apache-2.0
// One delta stream to the control plane, from its opening to its end. Reads token and root certificates anew each time; tries once, whoever calls it tries again.

import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import type { ChannelCredentials, ClientOptions } from '@grpc/grpc-js'
import type { Clock } from '../../base/clock.js'
import { formatError, InvalidInput, Retryable } from '../../base/errors.js'
import { decodeAnswer, encodeAsk, type DeltaAnswer, type DeltaAsk } from './messages.js'
import type { Target } from './target.js'

export interface StreamOptions {
  readonly target: Target
  /** Shown to the control plane over TLS; undefined: none is. */
  readonly tokenFile: string | undefined
  /** PEM of the roots that the control plane is trusted by; undefined: those of the system. */
  readonly rootFile: string | undefined
  /** Header `clusterid`, beside a token. */
  readonly clusterId: string
  readonly clock: Clock
  /** Longest time until the first answer. */
  readonly openMs: number
}

export interface StreamHandlers {
  /** The stream can be written to. */
  open(send: (ask: DeltaAsk) => void): void
  answer(answer: DeltaAnswer): void
}

const PATH = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources'
const MiB = 1024 * 1024

const channelOptions: ClientOptions = {
  'grpc.enable_http_proxy': 0,
  'grpc.enable_retries': 0,
  // Each try is a connection of its own, with what the files say then.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.max_receive_message_length': 200 * MiB,
  'grpc.max_send_message_length': -1,
  // No more often than the control planes of this kind allow.
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
}

/** Resolves when the server ended the stream in good order. Rejects with Retryable that says what went wrong, or with the signal's reason. */
export async function runStream(options: StreamOptions, handlers: StreamHandlers, signal: AbortSignal): Promise<void> {
  const { target, clock, openMs } = options
  const grpc = await import('@grpc/grpc-js')
  const metadata = new grpc.Metadata()
  let credentials: ChannelCredentials
  if (target.isPlaintext) credentials = grpc.credentials.createInsecure()
  else {
    const ca = options.rootFile === undefined ? undefined : await readRoots(options.rootFile)
    if (options.tokenFile !== undefined) {
      metadata.set('authorization', `Bearer ${await readToken(options.tokenFile)}`)
      metadata.set('clusterid', options.clusterId)
    }
    credentials = grpc.credentials.createFromSecureContext(
      createSecureContext({ minVersion: 'TLSv1.3', ...(ca === undefined ? {} : { ca }) }),
    )
  }
  signal.throwIfAborted()
  const client = new grpc.Client(target.authority, credentials, channelOptions)
  const asBytes = (bytes: Buffer): Buffer => bytes
  const call = client.makeBidiStreamRequest<Buffer, Buffer>(PATH, asBytes, asBytes, metadata)
  const cancel = (): void => call.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  const broken: { by?: string } = {}
  const late = clock.after(openMs, () => {
    broken.by = `it did not answer within ${openMs} ms`
    cancel()
  })
  try {
    await new Promise<void>((resolve, reject) => {
      call.on('data', (bytes: Buffer) => {
        late.cancel()
        if (broken.by !== undefined) return
        try {
          handlers.answer(decodeAnswer(bytes))
        } catch (error) {
          broken.by = `it sent what cannot be read: ${formatError(error)}`
          cancel()
        }
      })
      call.on('error', (error) => reject(new Retryable(broken.by ?? toReason(error), error)))
      call.on('status', ({ code, details }) => {
        if (code === grpc.status.OK) resolve()
        else reject(new Retryable(broken.by ?? details))
      })
      handlers.open((ask) => {
        if (call.writable) call.write(encodeAsk(ask))
      })
    })
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    late.cancel()
    signal.removeEventListener('abort', cancel)
    call.cancel()
    client.close()
  }
}

/** What grpc-js wraps around the one thing that a person wants to know is left out. */
function toReason(error: Error & { readonly details?: string }): string {
  return (error.details ?? error.message)
    .replace(/^No connection established\. Last error: (Error: )?/, '')
    .replace(/\. Resolution note: $/, '')
}

async function readRoots(path: string): Promise<Buffer> {
  const pem = await readFile(path).catch((error: unknown) => {
    throw new Retryable(`${path}: the root certificates cannot be read: ${formatError(error)}`, error)
  })
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Retryable(`${path}: there is no certificate in PEM in it`)
  return pem
}

async function readToken(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new Retryable(`${path}: the token cannot be read: ${formatError(error)}`, error)
  })
  const token = text.trim()
  if (!/^[\x21-\x7e]+$/.test(token)) throw new InvalidInput(`${path}: there is no token in it`)
  return token
}
