// SPDX-License-Identifier: Apache-2.0
// Lets Node run the TypeScript of this project as it is, for programs among the tests' support: types are stripped, `.js` in an import may mean `.ts`.

import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { transformSync } from '@swc/core'

export async function resolve(specifier, context, nextResolve) {
  if (specifier.startsWith('.') && specifier.endsWith('.js') && context.parentURL !== undefined) {
    const source = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL)
    if (existsSync(source)) return { url: source.href, format: 'module', shortCircuit: true }
  }
  return nextResolve(specifier, context)
}

export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context)
  const filename = fileURLToPath(url)
  const { code } = transformSync(readFileSync(filename, 'utf8'), {
    filename,
    jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
    module: { type: 'es6' },
    sourceMaps: 'inline',
  })
  return { format: 'module', source: code, shortCircuit: true }
}
