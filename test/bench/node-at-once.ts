// SPDX-License-Identifier: Apache-2.0
// Rows about the rules of many pods at once over netlink. Beside them: one after the other, and one after the other where each waits for the kernel, as a
// program does that commits and closes its socket.

import { createTestNetworks } from '../support/test-netns.js'
import { askRules, startRules, toText, type Sizes } from './node-rules.js'
import type { RulesAnswer } from './node-rules-program.js'
import { selectMedian } from './programs.js'
import type { Row } from './report.js'

export async function measureAtOnce(add: (row: Row) => void, { rounds, pods }: Sizes): Promise<void> {
  const networks = createTestNetworks()
  const product = startRules('nftables')
  const waiting = startRules('netlink-waiting')
  try {
    const paths = Array.from({ length: pods }, () => networks.add('once').path)
    const once: RulesAnswer[] = []
    const single: RulesAnswer[] = []
    const waited: RulesAnswer[] = []
    const remove = (): Promise<RulesAnswer> => askRules(product, { step: 'remove', paths, isAtOnce: true })
    for (let i = 0; i < rounds; i++) {
      once.push(await askRules(product, { step: 'first', paths, isAtOnce: true }))
      await remove()
      single.push(await askRules(product, { step: 'first', paths }))
      await remove()
      waited.push(await askRules(waiting, { step: 'first', paths }))
      await remove()
    }
    const total = (answers: readonly RulesAnswer[], of: 'cpuUs' | 'wallUs'): number =>
      selectMedian(answers.map(({ costs }) => costs.reduce((sum, cost) => sum + cost[of], 0)))
    const waitedUs = total(waited, 'wallUs')
    add({
      figure: `rules of ${pods} pods at once, wall`,
      unit: 'ms',
      addressd: total(once, 'wallUs') / 1000,
      plain: waitedUs / 1000,
      target: waitedUs / 3000,
      note: `plain: over netlink too, one after the other, each waits for the kernel; ours one after the other ${toText(total(single, 'wallUs'))}`,
    })
    add({
      figure: `rules of ${pods} pods at once, CPU a pod`,
      unit: 'ms',
      addressd: total(once, 'cpuUs') / 1000 / pods,
      note: `one after the other ${toText(total(single, 'cpuUs') / pods)}; longest stall ${Math.max(...once.map(({ stallMs }) => stallMs)).toFixed(1)} ms`,
    })
  } finally {
    await product.stop()
    await waiting.stop()
    networks.close()
  }
}
