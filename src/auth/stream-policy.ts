// SPDX-License-Identifier: Apache-2.0
// What a proven caller may do on a discovery stream: which node it may say that it is, and who may have the addresses of the whole mesh. Pure.

import type { Caller } from '../base/caller.js'
import { ProtocolError } from '../base/errors.js'
import { shortenText } from '../base/short-text.js'
import { isEmptyAccountList, type AccountList } from '../base/service-accounts.js'
import { parseSpiffeId } from '../base/spiffe.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../wire/messages.js'

const PERMISSION_DENIED = 7
const meshTypes: ReadonlySet<string> = new Set([ADDRESS_TYPE, WORKLOAD_TYPE, AUTHORIZATION_TYPE])

/** Who is on a stream. */
export interface Asker {
  readonly secure: boolean
  /** Undefined where nobody asks for proof. */
  readonly caller: Caller | undefined
}

/** What counts of a client's node. */
export interface ClaimedNode {
  readonly namespace: string
  readonly metadata: Readonly<Record<string, unknown>>
}

export interface StreamPolicyOptions {
  /** Whether a proven caller may only be a node of its own namespace and account. */
  readonly checksNode: boolean
  /** XDS_TRUSTED_ACCOUNTS */
  readonly trustedAccounts: AccountList
  /** CA_TRUSTED_NODE_ACCOUNTS */
  readonly trustedNodeAccounts: AccountList
}

export interface StreamPolicy {
  /** Throws ProtocolError (PERMISSION_DENIED) when no identity of the caller is of the namespace, and account if it names one, of the node. */
  admitNode(asker: Asker, node: ClaimedNode): void
  /** Throws ProtocolError (PERMISSION_DENIED) when the type is for trusted accounts alone and the caller is none of them. */
  admitType(asker: Asker, typeUrl: string): void
}

export function createStreamPolicy(options: StreamPolicyOptions): StreamPolicy {
  const isOpen = isOpenToAll(options)
  return {
    admitNode({ caller }, node) {
      if (!options.checksNode || caller === undefined) return
      const account = node.metadata['SERVICE_ACCOUNT']
      const isOwn = caller.identities
        .map(parseSpiffeId)
        .some(
          (id) =>
            id?.namespace === node.namespace &&
            (account === undefined || account === '' || id.serviceAccount === account),
        )
      if (isOwn) return
      const claimed = typeof account === 'string' && account !== '' ? `${node.namespace}/${account}` : node.namespace
      throw new ProtocolError(
        `authorization failed: ${formatIdentities(caller)} may not be a node of ${shortenText(claimed, 200)}`,
        PERMISSION_DENIED,
      )
    },
    admitType({ secure, caller }, typeUrl) {
      // The plaintext port asks nobody who they are, unless told to.
      if (isOpen || !meshTypes.has(typeUrl) || (!secure && caller === undefined)) return
      if (caller?.identities.some((identity) => isTrusted(identity, options)) === true) return
      throw new ProtocolError(
        `${formatIdentities(caller)} may not read the mesh here: its account is neither in XDS_TRUSTED_ACCOUNTS nor in CA_TRUSTED_NODE_ACCOUNTS`,
        PERMISSION_DENIED,
      )
    },
  }
}

/** Nobody said which accounts may have the addresses of the mesh: every proven caller may. */
export function isOpenToAll({
  trustedAccounts,
  trustedNodeAccounts,
}: Pick<StreamPolicyOptions, 'trustedAccounts' | 'trustedNodeAccounts'>): boolean {
  return isEmptyAccountList(trustedAccounts) && isEmptyAccountList(trustedNodeAccounts)
}

function isTrusted(identity: string, options: StreamPolicyOptions): boolean {
  const id = parseSpiffeId(identity)
  if (id === undefined) return false
  const account = `${id.namespace}/${id.serviceAccount}`
  return options.trustedAccounts.accounts.has(account) || options.trustedNodeAccounts.accounts.has(account)
}

function formatIdentities(caller: Caller | undefined): string {
  return caller === undefined ? 'a caller without identity' : caller.identities.join(', ')
}
