// SPDX-License-Identifier: Apache-2.0
// The settings about rules in pods and on the host. Part of the node agent's settings table.

import { InvalidInput } from '../base/errors.js'
import { parseBoolean } from '../base/go-values.js'
import { parseIp } from '../base/ip.js'
import { booleanValue } from '../base/setting-values.js'
import type { SettingsTable, ValueType } from '../base/settings.js'

const rules = 'Rules'

/** True, false, or undefined for an empty text: then the program chooses. */
const optionalBooleanValue: ValueType<boolean | undefined> = {
  label: 'BOOLEAN',
  parse: (text) => (text === '' ? undefined : parseBoolean(text)),
}

function addressValue(bytes: 4 | 16): ValueType<string> {
  return {
    label: 'IP',
    parse(text) {
      if (parseIp(text)?.length !== bytes)
        throw new InvalidInput(`"${text}" is not an IPv${bytes === 4 ? '4' : '6'} address`)
      return text
    },
  }
}

const variantValue: ValueType<'legacy' | 'nft' | undefined> = {
  label: 'VARIANT',
  parse(text) {
    if (text === '') return undefined
    if (text === 'legacy' || text === 'nft') return text
    throw new InvalidInput(
      `"${text}" is no variant of iptables; it must be legacy or nft, or empty to choose by itself`,
    )
  },
}

export const ruleSettings = {
  dnsCapture: {
    group: rules,
    env: 'AMBIENT_DNS_CAPTURE',
    default: 'true',
    type: booleanValue,
    sentence:
      'DNS questions of pods go to ztunnel; a pod may say otherwise by its annotation ambient.istio.io/dns-capture.',
    fromIstiod: true,
  },
  ipv6: {
    group: rules,
    env: 'AMBIENT_IPV6',
    default: 'true',
    type: booleanValue,
    sentence: 'Make rules for IPv6 too. Off for kernels without IPv6: then no program and no message is about it.',
    fromIstiod: true,
  },
  nativeNftables: {
    group: rules,
    env: 'NATIVE_NFTABLES',
    default: '',
    type: optionalBooleanValue,
    sentence:
      'true: rules go to the kernel over netlink, and without nf_tables the agent is not ready. false: by iptables. Empty: over netlink where the kernel has nf_tables, else by iptables.',
    fromIstiod: true,
  },
  forceIptablesBinary: {
    group: rules,
    env: 'FORCE_IPTABLES_BINARY',
    default: '',
    type: variantValue,
    sentence: 'Which iptables to use, legacy or nft. Empty: the one in which the host has rules, else nft.',
    fromIstiod: true,
  },
  reconcileOnStartup: {
    group: rules,
    env: 'AMBIENT_RECONCILE_POD_RULES_ON_STARTUP',
    default: 'true',
    type: booleanValue,
    sentence:
      'Chains in a pod that are called ISTIO_ and that nobody here knows are taken out as well. Rules of our own are always put right.',
    fromIstiod: true,
  },
  probeAddress4: {
    group: rules,
    env: 'HOST_PROBE_SNAT_IP',
    default: '169.254.7.127',
    type: addressValue(4),
    sentence:
      "Source address that kubelet's probes get on their way to a pod in the mesh, so that they are not captured.",
    fromIstiod: true,
  },
  probeAddress6: {
    group: rules,
    env: 'HOST_PROBE_SNAT_IPV6',
    default: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
    type: addressValue(16),
    sentence: 'The same for IPv6.',
    fromIstiod: true,
  },
  switchToHostNetns: {
    group: rules,
    env: 'ALLOW_SWITCH_TO_HOST_NS',
    default: 'false',
    type: booleanValue,
    sentence:
      "The rule for probes is made in the namespace of the host's process 1. Off: in the agent's own, for an agent on the host's network.",
    fromIstiod: true,
  },
} satisfies SettingsTable
