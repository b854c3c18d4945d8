// SPDX-License-Identifier: Apache-2.0
import { afterAll, describe, expect } from '@jest/globals'
import { Fatal } from '../../../src/base/errors.js'
import { findNodeTools } from '../../../src/node-agent/rules/iptables-tools.js'
import { detectVariant } from '../../../src/node-agent/rules/variant.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { Room, printing } from './iptables-room.js'

const room = new Room()
afterAll(() => room.close())
const test = testWith('built', hostParts.built)

const headers = [
  '*nat',
  ':PREROUTING ACCEPT [0:0]',
  ':INPUT ACCEPT [0:0]',
  ':OUTPUT ACCEPT [0:0]',
  ':POSTROUTING ACCEPT [0:0]',
]
const dumpOf = (...lines: string[]): string => printing([...headers, ...lines, 'COMMIT'].join('\n'))
const empty = dumpOf()
const used = dumpOf('-A POSTROUTING -s 10.0.0.0/24 ! -o cni0 -j MASQUERADE')

/** Programs of both families that print these dumps; those of a variant that is null are not there. */
function addDumps(dumps: Readonly<Record<string, string | null>>): string {
  const programs: Record<string, string> = {}
  for (const [variant, text] of Object.entries(dumps)) {
    for (const family of ['iptables', 'ip6tables']) {
      if (text === null) continue
      const suffix = variant === 'plain' ? '' : `-${variant}`
      programs[`${family}${suffix}-save`] = text
      programs[`${family}${suffix}-restore`] = 'exit 0'
    }
  }
  return room.addPrograms(programs)
}

function detect(folder: string, more: { ipv6?: boolean; force?: 'nft' | 'legacy' } = {}): Promise<string> {
  const { workers, log, onCommand } = room
  const tools = findNodeTools(folder)
  return detectVariant({ workers, tools, ipv6: true, log, onCommand, ...more }).then(({ variant }) => variant)
}

describe('the variant of iptables', () => {
  test('is the one in which somebody has rules or chains; tables that are only there do not count', async () => {
    const answers = {
      headersInLegacy: await detect(addDumps({ legacy: empty, nft: used })),
      rulesInLegacy: await detect(addDumps({ legacy: used, nft: empty })),
      rulesInBoth: await detect(addDumps({ legacy: used, nft: used })),
      nothingAnywhere: await detect(addDumps({ legacy: empty, nft: empty })),
      chainInLegacy: await detect(addDumps({ legacy: dumpOf(':KUBE-CANARY - [0:0]'), nft: used })),
      meshLeftoversInLegacy: await detect(
        addDumps({
          legacy: dumpOf(':ISTIO_POSTRT - [0:0]', '-A POSTROUTING -j ISTIO_POSTRT', '-A ISTIO_POSTRT -j RETURN'),
          nft: empty,
        }),
      ),
      onlyLegacy: await detect(addDumps({ legacy: empty, nft: null })),
      nftDoesNotWork: await detect(addDumps({ legacy: empty, nft: 'echo "no nf_tables" >&2; exit 1' })),
      onlyNft: await detect(addDumps({ legacy: null, nft: empty })),
    }
    expect(answers).toEqual({
      headersInLegacy: 'nft',
      rulesInLegacy: 'legacy',
      rulesInBoth: 'legacy',
      nothingAnywhere: 'nft',
      chainInLegacy: 'legacy',
      meshLeftoversInLegacy: 'nft',
      onlyLegacy: 'legacy',
      nftDoesNotWork: 'legacy',
      onlyNft: 'nft',
    })
  })

  test('is what programs without one in their name say they are', async () => {
    const plain = (version: string): string => `[ "$1" = --version ] && { echo "${version}"; exit; }\n${empty}`
    expect(await detect(addDumps({ plain: plain('iptables-save v1.8.9 (nf_tables)') }))).toBe('nft')
    expect(await detect(addDumps({ plain: plain('iptables-save v1.6.0') }))).toBe('legacy')
    expect(await detect(addDumps({ plain: 'echo "unrecognized option" >&2' }))).toBe('legacy')
  })

  test('is missing aloud where no program works', async () => {
    await expect(detect(addDumps({ legacy: null, nft: null }))).rejects.toThrow(Fatal)
    await expect(detect(addDumps({}))).rejects.toThrow(
      'iptables-nft-save and iptables-nft-restore are not installed; ip6tables-nft-save',
    )
    await expect(detect(addDumps({ legacy: used, nft: null }), { force: 'nft' })).rejects.toThrow('iptables-nft-save')
    expect(await detect(addDumps({ legacy: empty, nft: used }), { force: 'legacy' })).toBe('legacy')
  })

  test('needs the programs of IPv6 when that is on, and starts none of them when it is off', async () => {
    const folder = room.addPrograms({
      'iptables-nft-save': empty,
      'iptables-nft-restore': 'exit 0',
      'ip6tables-nft-save': 'exit 3',
      'ip6tables-nft-restore': 'exit 3',
    })
    await expect(detect(folder)).rejects.toThrow('ip6tables-nft-save: exit code 3')
    room.takeCommands()
    expect(await detect(folder, { ipv6: false })).toBe('nft')
    expect(room.takeCommands()).toEqual(['iptables-nft-save'])
  })
})
