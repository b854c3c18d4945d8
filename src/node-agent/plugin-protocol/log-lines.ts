// SPDX-License-Identifier: Apache-2.0
// The log that istio-cni's plugin sends at its end: a JSON array of texts, each of them one log line as JSON. Writes nothing itself.

import type { Fields } from '../../base/log.js'

export interface PluginLogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly message: string
  /** When the plugin wrote it, as it wrote it. */
  readonly time: string
  /** Everything else that the line says. */
  readonly labels: Fields
}

const levels = new Set(['debug', 'info', 'warn', 'error'])

/** The lines of one body, in order. Lines without message, level or time, and lines that are no JSON, are left out. Undefined when the body is no array. */
export function parseLogLines(body: string): readonly PluginLogLine[] | undefined {
  const batch = parseJson(body)
  if (!Array.isArray(batch)) return undefined
  return batch.flatMap((text: unknown) => (typeof text === 'string' ? parseLine(text) : []))
}

function parseLine(text: string): PluginLogLine[] {
  const line = parseJson(text)
  if (typeof line !== 'object' || line === null || Array.isArray(line)) return []
  const { level, msg, time, scope: _scope, ...labels } = line as Record<string, unknown>
  if (typeof level !== 'string' || typeof msg !== 'string' || typeof time !== 'string' || !levels.has(level)) return []
  return [{ level: level as PluginLogLine['level'], message: msg, time, labels }]
}

/** Undefined when it is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Whatever a plugin sends, its pod must not suffer: what cannot be read is dropped.
    return undefined
  }
}
