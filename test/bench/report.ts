// SPDX-License-Identifier: Apache-2.0
// The table of figures: as text for a terminal, as Markdown for docs/BENCH.md. Judges nothing; says beside each figure what it should be.

export interface Row {
  readonly figure: string
  readonly unit: 'ms' | 'us' | 'ns' | 'MB' | 's'
  readonly addressd: number
  /** At most this. */
  readonly target?: number
  readonly plain?: number | undefined
  /** Why something is not here, or was measured otherwise. */
  readonly note?: string
}

const headings = ['figure', 'addressd', 'at most', 'the plain way', 'plain / addressd', 'note']

function formatNumber(value: number): string {
  if (Number.isNaN(value)) return '-'
  if (value >= 100) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

function toCells(row: Row): string[] {
  const { unit, addressd, target, plain, note = '' } = row
  const withUnit = (value: number): string => (Number.isNaN(value) ? '-' : `${formatNumber(value)} ${unit}`)
  const aim = target === undefined ? '' : `${withUnit(target)}${addressd > target ? ' (missed)' : ''}`
  const ratio = plain === undefined || !(addressd > 0) ? '' : `${formatNumber(plain / addressd)}x`
  return [row.figure, withUnit(addressd), aim, plain === undefined ? '' : withUnit(plain), ratio, note]
}

/** One line a row, columns aligned; rows are lines of a Markdown table, too. */
export function formatTable(rows: readonly Row[]): string {
  const lines = [headings, ...rows.map(toCells)]
  const widths = headings.map((_, i) => Math.max(...lines.map((line) => (line[i] ?? '').length)))
  const format = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`
  return [format(headings), rule, ...lines.slice(1).map(format)].join('\n')
}

export interface Circumstances {
  readonly cpu: string
  readonly cpus: number
  readonly load: string
  readonly node: string
  readonly client: string
  readonly seconds: number
  readonly mode: 'full' | 'quick'
}

/** The page: the table and how it was taken. */
export function formatPage(rows: readonly Row[], how: Circumstances): string {
  return `<!-- SPDX-License-Identifier: Apache-2.0 -->

# Benchmark

Written by \`npm run bench\`${how.mode === 'quick' ? ' (`--quick`: fewer sizes and repetitions)' : ''}. Read the ratios: absolute figures are those of one machine
at one moment.

${formatTable(rows)}

## How it was taken

- ${how.cpus} CPUs (${how.cpu}), load average ${how.load} while it ran, Node ${how.node}, ${how.seconds} s in all. Everything is on this one machine, over
  loopback, in the clear.
- addressd is \`bin/addressd serve --kubeconfig\`, as shipped (debounce 10 ms, logs on), a process of its own. CPU is user and system time of the whole process, all threads,
  from \`/proc/PID/stat\`; memory is \`VmRSS\` from \`/proc/PID/status\`.
- The API server is a process that holds a mesh in memory and answers lists and watches in Kubernetes' protobuf or JSON, whichever is asked for. Where a row says "real API
  server", it is kube-apiserver with etcd, which was filled beforehand.
- The mesh: 20 pods a service, 100 pods a node, 50 ambient namespaces; pods with 12 environment entries, 5 conditions, managed fields; every pod is reached over HBONE. A change is a new \`version\` label of one pod.
- Clients: ${how.client}. Each has a connection and a delta stream of its own, reads as fast as it can and acknowledges everything.
- The plain way (\`test/bench/plain-server.ts\`): lists and watches JSON, keeps the objects, derives every address again after each change (same debounce), and writes through grpc-js
  with proto-loader, which encodes each response for each client. Same data, same clients, same run, taken alternately. Before anything is timed both are asked for everything
  and every address is compared; a difference stops the benchmark.
- The agent of a node: CPU is user and system time of the process and of the programs it ran and waited for (getrusage), each pod in a fresh namespace, the subjects
  in turn, in one process each. The plain way there is \`nsenter\` with \`iptables-nft-restore\`, \`ip6tables-nft-restore\` and \`ip -batch\` (four programs to make the same
  rules, four to take them out); "made again" is held against two dumps and a check of each rule, as istio-cni does it, and against taking out and making. Rows of the
  whole agent have API server and ztunnel in processes of their own; the plugin's own cost is counted by wait4, its memory by the kernel's map of it at its end.
- Figures with repetitions are medians. "At most" is what the project set itself; a figure above it is marked.
`
}
