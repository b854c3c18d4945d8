// SPDX-License-Identifier: Apache-2.0
// Real ztunnels that know their workloads by a file and sign their own certificates: no control plane. For tests of what happens on the node. Each lives in a
// network of its own, as its fixed ports demand. Needs a ztunnel that was built with the feature `testing`.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NetSpace } from './net-space.js'
import { findZtunnel, whyNoZtunnel, Ztunnel } from './ztunnel.js'

export interface LocalWorkload {
  readonly name: string
  readonly ips: readonly string[]
  readonly protocol?: 'HBONE' | 'TCP'
  readonly serviceAccount?: string
  /** `namespace/hostname` to service port to port of the pod. */
  readonly services?: Readonly<Record<string, Readonly<Record<number, number>>>>
}

export interface LocalService {
  readonly name: string
  readonly hostname: string
  readonly vips: readonly string[]
  readonly ports: Readonly<Record<number, number>>
}

export const localNode = 'n1'

const localEnv = {
  PROXY_MODE: 'shared',
  NODE_NAME: localNode,
  XDS_ADDRESS: '',
  CA_ADDRESS: 'https://127.0.0.1:1',
  XDS_ROOT_CA: undefined,
  CA_ROOT_CA: undefined,
  ENABLE_ORIG_SRC: 'true',
  IPV6_ENABLED: 'true',
  TERMINATION_GRACE_PERIOD_SECONDS: undefined,
} as const

let looked: { readonly missing: string | undefined } | undefined

/** Why this machine has no such ztunnel; undefined when it has. */
export function whyNoLocalZtunnel(): string | undefined {
  return whyNoZtunnel() ?? (looked ??= { missing: whyNoFakeCa() }).missing
}

/** One without the feature ends at once. */
function whyNoFakeCa(): string | undefined {
  const env = { PATH: process.env['PATH'], ...localEnv, INPOD_UDS: '/nonexistent/zds.sock', FAKE_CA: 'true' }
  const inside = 'ip link set lo up && exec "$0" proxy ztunnel'
  const { status, signal, stderr } = spawnSync('unshare', ['--net', 'sh', '-c', inside, findZtunnel() ?? ''], {
    env,
    cwd: tmpdir(),
    encoding: 'utf8',
    timeout: 1_000,
    killSignal: 'SIGKILL',
  })
  if (signal === 'SIGKILL') return undefined
  const words = stderr.trim().split('\n').slice(0, 2).join(' ')
  return `this ztunnel signs no certificates of its own (built without the feature testing): ${status} ${words}`
}

export class LocalZtunnels {
  readonly zds: string
  readonly #folder: string
  readonly #spaces: NetSpace[] = []
  readonly #ztunnels: Ztunnel[] = []

  /** They look for the agent at the path `zds`; in a folder of this room when it is left out. */
  constructor(workloads: readonly LocalWorkload[], services: readonly LocalService[] = [], zds?: string) {
    this.#folder = mkdtempSync(join(tmpdir(), 'addressd-local-'))
    this.zds = zds ?? join(this.#folder, 'zds.sock')
    const known = {
      workloads: workloads.map(({ name, ips, protocol = 'HBONE', serviceAccount = 'default', services: of = {} }) => ({
        uid: `cluster1//Pod/default/${name}`,
        name,
        namespace: 'default',
        serviceAccount,
        workloadIps: ips,
        protocol,
        node: localNode,
        network: '',
        services: of,
      })),
      services: services.map(({ name, hostname, vips, ports }) => ({
        name,
        namespace: 'default',
        hostname,
        vips: vips.map((ip) => `/${ip}`),
        ports,
      })),
    }
    // A JSON text is a YAML one too, but for keys that are to be numbers.
    const text = JSON.stringify(known).replace(/"(\d+)":/g, '$1: ')
    writeFileSync(join(this.#folder, 'workloads.yaml'), text)
  }

  /** A network for one. */
  async openSpace(): Promise<NetSpace> {
    const space = await NetSpace.open({})
    this.#spaces.push(space)
    return space
  }

  /** Starts one, in a network of its own or in a given one. */
  async start(env: Readonly<Record<string, string | undefined>> = {}, space?: NetSpace): Promise<Ztunnel> {
    const ztunnel = new Ztunnel({
      space: space ?? (await this.openSpace()),
      root: '',
      env: {
        ...localEnv,
        INPOD_UDS: this.zds,
        LOCAL_XDS_PATH: join(this.#folder, 'workloads.yaml'),
        ...(whyNoLocalZtunnel() === undefined && { FAKE_CA: 'true' }),
        ...env,
      },
    })
    this.#ztunnels.push(ztunnel)
    return ztunnel
  }

  async close(): Promise<void> {
    await Promise.all(this.#ztunnels.map((ztunnel) => ztunnel.stop()))
    await Promise.all(this.#spaces.map((space) => space.close()))
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
