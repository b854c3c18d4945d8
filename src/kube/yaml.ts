// SPDX-License-Identifier: Apache-2.0
// Text of one YAML document as a value, for small files that are read now and then. The package that reads YAML is loaded when a text first needs it;
// JSON, which is YAML too, does without.

import { createRequire } from 'node:module'
import type * as yaml from 'yaml'

const require = createRequire(import.meta.url)

/** What is wanted beyond YAML 1.2 with its defaults. */
export interface YamlOptions {
  readonly version?: '1.1'
  readonly uniqueKeys?: boolean
  readonly logLevel?: 'error'
}

/** The value that the text stands for. Throws, naming line and column, when it is no YAML. */
export function parseYaml(text: string, options: YamlOptions = {}): unknown {
  if (/^\s*\{/.test(text)) {
    try {
      return JSON.parse(text)
    } catch {
      // A flow mapping, or a mistake that the other reader explains better.
    }
  }
  return (require('yaml') as typeof yaml).parse(text, options)
}
