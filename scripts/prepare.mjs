// SPDX-License-Identifier: Apache-2.0
// What start, test and build have in common: packages that are there, and a `dist/` that is as `src/` is. Does nothing when nothing is to do.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The clone. */
export const root = fileURLToPath(new URL('..', import.meta.url))

const at = (...parts) => join(root, ...parts)

/** Ends this program when a step it needs has failed. */
function must(what, result) {
  if (result.error) {
    console.error(`${what} could not be started: ${result.error.message}`)
    process.exit(1)
  }
  if (result.status !== 0) {
    console.error(`${what} failed`)
    process.exit(result.status ?? 1)
  }
}

/** Ends this program on a Node that is too old, before it fails in a way that nobody understands. */
export function requireNode(minimum = [20, 19]) {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > minimum[0] || (major === minimum[0] && minor >= minimum[1])) return
  console.error(`Node ${minimum.join('.')} or newer is needed; this is ${process.version}`)
  process.exit(1)
}

/** Places of the packages in package-lock.json that are not installed in the version written there. */
export function selectMissing(lockText, installedText) {
  const wanted = JSON.parse(lockText).packages ?? {}
  const installed = installedText === undefined ? {} : (JSON.parse(installedText).packages ?? {})
  return Object.entries(wanted)
    .filter(([path, entry]) => path !== '' && !entry.optional && installed[path]?.version !== entry.version)
    .map(([path]) => path)
}

/** Installs exactly what package-lock.json says, when any of it is missing. */
export function installMissing() {
  const record = at('node_modules/.package-lock.json')
  const installed = existsSync(record) ? readFileSync(record, 'utf8') : undefined
  const missing = selectMissing(readFileSync(at('package-lock.json'), 'utf8'), installed)
  if (missing.length === 0) return
  console.log(`installing: ${missing.length} packages are missing`)
  const npm = process.env.npm_execpath
  const [command, first] = npm?.endsWith('.js') ? [process.execPath, [npm]] : ['npm', []]
  must('npm ci', spawnSync(command, [...first, 'ci', '--no-audit', '--no-fund'], { cwd: root, stdio: 'inherit' }))
}

function listFiles(folder, ending) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return listFiles(path, ending)
    return entry.name.endsWith(ending) ? [path] : []
  })
}

/** One line a file that the built code depends on. */
function describeSources() {
  const settings = ['tsconfig.json', 'tsconfig.base.json', 'package-lock.json'].map((name) => at(name))
  return [...listFiles(at('src'), '.ts'), ...settings]
    .map((path) => {
      const { mtimeMs, size } = statSync(path)
      return `${relative(root, path)} ${mtimeMs} ${size}`
    })
    .sort()
    .join('\n')
}

/** Compiles `src/` to `dist/`, when a source changed; what was built from a source that is gone goes too. */
export function build() {
  const stamp = at('dist/.sources')
  const sources = describeSources()
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === sources) return
  // Without a stamp nobody knows what is in there: then everything is compiled again.
  if (!existsSync(stamp)) rmSync(at('dist/.tsbuildinfo'), { force: true })
  rmSync(stamp, { force: true })
  const options = ['-p', at('tsconfig.json'), '--incremental', '--tsBuildInfoFile', at('dist/.tsbuildinfo')]
  const tsc = at('node_modules/typescript/bin/tsc')
  must('tsc', spawnSync(process.execPath, [tsc, ...options], { cwd: root, stdio: 'inherit' }))
  for (const built of listFiles(at('dist'), '.js')) {
    if (existsSync(at('src', relative(at('dist'), built).replace(/\.js$/, '.ts')))) continue
    rmSync(built)
    rmSync(`${built}.map`, { force: true })
  }
  mkdirSync(at('dist'), { recursive: true })
  writeFileSync(stamp, sources)
}
