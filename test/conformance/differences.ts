// SPDX-License-Identifier: Apache-2.0
// Where we answer otherwise than a recorded case that names no deviation of its own. Each stands in docs/COMPARISON.md with its reason.

interface Difference {
  readonly why: string
  /** Step, then resource, then what we answer instead. */
  readonly expect: Readonly<Record<string, Readonly<Record<string, object>>>>
}

/** By name of the case. */
export const differences: Readonly<Record<string, Difference>> = {
  'waypoint-without-usable-address': {
    why: 'A proxy rejects the whole service for a weighted waypoint that leads nowhere.',
    expect: {
      '1': {
        'odd/s.odd.svc.cluster.local': {
          hex: '12380a017312036f64641a17732e6f64642e7376632e636c75737465722e6c6f63616c220612040a6046012a07085010903f1801480158016001',
          version: 'f641c33e22e5a7d2',
          decoded: { service: {} },
        },
      },
    },
  },
}
