// SPDX-License-Identifier: Apache-2.0
// Rules in a pod that are not ours: what an earlier release or istio-cni left, and what somebody else put there. Each can be made and found again.

import type { TestNetns } from '../../support/test-netns.js'

/** A kind of rules in a namespace. */
export interface StrangeRules {
  add(netns: TestNetns): void
  isThere(netns: TestNetns): boolean
}

const restore = (netns: TestNetns, tool: string, text: string): void => {
  netns.run([tool, '--noflush'], text)
}

/** As istio-cni makes them with iptables, with a port that nobody uses any more, and its native tables beside them. */
export const oldRules: StrangeRules = {
  add(netns) {
    const text = [
      '*mangle',
      ':ISTIO_PRERT - [0:0]',
      ':ISTIO_OUTPUT - [0:0]',
      '-A PREROUTING -j ISTIO_PRERT',
      '-A OUTPUT -j ISTIO_OUTPUT',
      '-A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff',
      'COMMIT',
      '*nat',
      ':ISTIO_PRERT - [0:0]',
      ':ISTIO_OUTPUT - [0:0]',
      '-A PREROUTING -j ISTIO_PRERT',
      '-A OUTPUT -j ISTIO_OUTPUT',
      '-A ISTIO_PRERT -p tcp -m tcp --dport 9999 -j REDIRECT --to-ports 15006',
      '-A ISTIO_OUTPUT -p tcp -m tcp --dport 9999 -j REDIRECT --to-ports 15001',
      'COMMIT',
      '',
    ].join('\n')
    restore(netns, 'iptables-nft-restore', text)
    netns.run(
      ['nft', '-f', '-'],
      'table inet istio-ambient-nat { chain istio-output { tcp dport 9999 redirect to :15001; }; }',
    )
  },
  isThere: (netns) =>
    ['iptables-nft-save', 'iptables-legacy-save'].some((tool) =>
      netns.tryRun([tool]).stdout.includes('--dport 9999'),
    ) || netns.run(['nft', 'list', 'ruleset']).includes('dport 9999'),
}

const foreignAddress = '203.0.113.99'

/** Somebody's redirection, by iptables and by a table of their own. */
export const foreignRules: StrangeRules = {
  add(netns) {
    const text = `*nat\n:OTHERS - [0:0]\n-A OUTPUT -j OTHERS\n-A OTHERS -d ${foreignAddress}/32 -p tcp -j ACCEPT\nCOMMIT\n`
    restore(netns, 'iptables-nft-restore', text)
    netns.run(['nft', '-f', '-'], `table inet others { chain theirs { ip daddr ${foreignAddress} accept; }; }`)
  },
  isThere(netns) {
    const dump = netns.run(['iptables-nft-save'])
    const isInIptables = dump.includes(`-A OTHERS -d ${foreignAddress}/32`) && dump.includes('-A OUTPUT -j OTHERS')
    return isInIptables && netns.tryRun(['nft', 'list', 'table', 'inet', 'others']).stdout.includes(foreignAddress)
  },
}
