// SPDX-License-Identifier: Apache-2.0
// What this machine has of what tests of the node agent need. Each part is undefined when it is there, else the reason why it is missing, for
// testWith(). Looked at once, when first asked for; what a look changes is gone with it (it runs in a namespace of its own).

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

type Missing = string | undefined

/** Reason why a command does not succeed; undefined when it does. */
function whyNot(command: string, args: readonly string[]): Missing {
  const { error, status, signal, stderr } = spawnSync(command, args, { encoding: 'utf8', timeout: 10_000 })
  if (error !== undefined) return `${command} does not run: ${error.message}`
  if (status === 0) return undefined
  return `${command} ${args.join(' ')} fails: ${(stderr || String(signal ?? status)).trim().split('\n')[0]}`
}

/** The same, inside a network namespace made for it. */
function whyNotInside(...command: string[]): Missing {
  return hostParts.netns ?? whyNot('unshare', ['-n', ...command])
}

function once(look: () => Missing): () => Missing {
  let seen: { readonly answer: Missing } | undefined
  return () => (seen ??= { answer: look() }).answer
}

const looks = {
  root: once(() => (process.getuid?.() === 0 ? undefined : 'not root')),
  built: once(() =>
    existsSync(fileURLToPath(new URL('../../dist/node-agent/worker.js', import.meta.url)))
      ? undefined
      : 'dist/ is not there; npm run build makes it',
  ),
  netns: once(() => hostParts.root ?? whyNot('unshare', ['-n', 'true']) ?? whyNot('ip', ['netns', 'list'])),
  iptablesNft: once(() => whyNotInside('iptables-nft', '-t', 'nat', '-S')),
  iptablesLegacy: once(() => whyNotInside('iptables-legacy', '-t', 'nat', '-S')),
  nft: once(() => whyNotInside('nft', 'add', 'table', 'inet', 'looked_for')),
  ipset: once(() => whyNotInside('ipset', 'create', 'looked_for', 'hash:ip')),
  containerd: once(() => hostParts.root ?? whyNot('containerd', ['--version']) ?? whyNot('runc', ['--version'])),
  gcc: once(() => whyNot('gcc', ['--version'])),
  conntrack: once(() => whyNotInside('conntrack', '-C')),
}

/** `netns`: namespaces can be made and taken down (root). `built`: `dist/` has the worker's program. */
export const hostParts = {
  get root(): Missing {
    return looks.root()
  },
  get built(): Missing {
    return looks.built()
  },
  get netns(): Missing {
    return looks.netns()
  },
  get iptablesNft(): Missing {
    return looks.iptablesNft()
  },
  get iptablesLegacy(): Missing {
    return looks.iptablesLegacy()
  },
  get nft(): Missing {
    return looks.nft()
  },
  get ipset(): Missing {
    return looks.ipset()
  },
  get containerd(): Missing {
    return looks.containerd()
  },
  get gcc(): Missing {
    return looks.gcc()
  },
  get conntrack(): Missing {
    return looks.conntrack()
  },
}
