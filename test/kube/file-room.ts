// SPDX-License-Identifier: Apache-2.0
// A folder of manifests in a temporary place with a feed on it. Time moves only through `until` and `advance`; the disk is real.

import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Fields, Logger } from '../../src/base/log.js'
import { createGraph } from '../../src/collection/graph.js'
import { createFileFeed } from '../../src/kube/file-feed.js'
import { createInputs, kinds, type Inputs } from '../../src/kube/inputs.js'
import { FakeClock } from '../support/fake-clock.js'

export interface Line {
  readonly level: string
  readonly fields: Fields
  readonly message: string
}

/** Keeps every line. */
export function collectingLogger(lines: Line[]): Logger {
  const at = (level: string) => (fields: Fields, message: string) => void lines.push({ level, fields, message })
  const log: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => log }
  return log
}

const patienceMs = 20_000

export class FileRoom {
  readonly folder = mkdtempSync(join(tmpdir(), 'addressd-files-'))
  readonly clock = new FakeClock()
  readonly lines: Line[] = []
  readonly inputs: Inputs
  /** One entry a change set: what changed, as `Kind key` with + (set) or - (deleted). */
  readonly sets: string[][] = []
  readonly #stop = new AbortController()
  #running: Promise<void> | undefined

  constructor(readonly options: { readonly revision?: string } = {}) {
    const graph = createGraph()
    this.inputs = createInputs(graph)
    let changes: string[] = []
    for (const kind of kinds) {
      graph.onCommit<object>(this.inputs[kind], (all) => {
        for (const { key, now } of all) changes.push(`${now === undefined ? '-' : '+'}${kind} ${key}`)
      })
    }
    graph.afterCommit(() => {
      this.sets.push(changes.sort())
      changes = []
    })
    // As soon as the synchronous batch is over: two batches give two commits.
    graph.onDirty(() => queueMicrotask(() => void graph.commit()))
  }

  get log(): Logger {
    return collectingLogger(this.lines)
  }

  /** Lines of a level, as one text each: `message | field=value`. */
  told(level: string): string[] {
    return this.lines
      .filter((line) => line.level === level)
      .map(({ message, fields }) =>
        [
          message,
          ...Object.entries(fields).map(([k, v]) => `${k}=${String(v).replaceAll(`${this.folder}/`, '')}`),
        ].join(' | '),
      )
  }

  async start(): Promise<void> {
    const feed = createFileFeed({
      folder: this.folder,
      inputs: this.inputs,
      cluster: 'c1',
      systemNamespace: 'istio-system',
      clock: this.clock,
      log: this.log,
      ...this.options,
    })
    let isSynced = false
    void feed.synced.then(() => (isSynced = true))
    const running = feed.run(this.#stop.signal)
    this.#running = running
    let failure: Error | undefined
    running.catch((error: unknown) => (failure = error as Error))
    await this.until(() => isSynced || failure !== undefined, 'the feed is synced')
    if (failure !== undefined) throw failure
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running?.catch(() => undefined)
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Writes as editors do: beside it, then renamed over it. */
  write(path: string, text: string): void {
    const full = join(this.folder, path)
    mkdirSync(dirname(full), { recursive: true })
    writeFileSync(`${full}.tmp~`, text)
    renameSync(`${full}.tmp~`, full)
  }

  /** Moves time on and lets the disk speak until it is so; fails when it never is. */
  async until(isSo: () => boolean, what: string): Promise<void> {
    const end = performance.now() + patienceMs
    while (!isSo()) {
      if (performance.now() > end) throw new Error(`it never came to this: ${what}\n${this.told('warn').join('\n')}`)
      await this.clock.advance(10)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }

  /** Until a marker object written last has been taken in: whatever was on the disk before it has been, too. */
  async settle(): Promise<void> {
    const name = `marker-${this.#markers++}`
    this.write('zz-marker.yaml', `{apiVersion: v1, kind: Node, metadata: {name: ${name}}}`)
    await this.until(() => this.inputs.Node.get(`c1/${name}`) !== undefined, `${name} is known`)
    for (const set of this.sets) {
      const rest = set.filter((change) => !change.includes('Node c1/marker-'))
      set.splice(0, set.length, ...rest)
    }
  }
  #markers = 0

  /** The change sets since the last call, without empty ones. */
  takeSets(): string[][] {
    return this.sets.splice(0).filter((set) => set.length > 0)
  }
}

/** A small pod in YAML. */
export function podYaml(name: string, ip: string, more = ''): string {
  return `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}, namespace: shop}\nspec: {nodeName: n1}\nstatus: {podIP: ${ip}}\n${more}`
}
