// SPDX-License-Identifier: Apache-2.0
// `npm run bench [-- --quick] [PART...]`: installs what is missing, builds, compiles test/bench beside the packages and runs it. Prints one table; a full
// run writes docs/BENCH.md. Linux only: figures come from /proc.

import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, installMissing, requireNode, root } from './prepare.mjs'

if (process.platform !== 'linux') {
  console.error('the benchmark reads /proc and runs on Linux only')
  process.exit(1)
}
requireNode()
installMissing()
build()

// Below node_modules, so that packages are found; what the sources import from src/ is the built code, as it is shipped.
const out = join(root, 'node_modules/.cache/addressd-bench')
rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
writeFileSync(join(out, 'package.json'), '{ "type": "module" }\n')
symlinkSync(join(root, 'dist'), join(out, 'src'))
const { transformSync } = await import('@swc/core')
for (const folder of ['test/bench', 'test/support']) {
  mkdirSync(join(out, folder), { recursive: true })
  for (const name of readdirSync(join(root, folder))) {
    if (!name.endsWith('.ts')) continue
    const { code } = transformSync(readFileSync(join(root, folder, name), 'utf8'), {
      jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
      module: { type: 'es6' },
    })
    writeFileSync(join(out, folder, name.replace(/\.ts$/, '.js')), code)
  }
}
// Read by the support code, relative to itself.
for (const folder of ['test/cluster', 'scripts', 'native', 'build', 'dist']) {
  symlinkSync(join(root, folder), join(out, folder))
}

const { status } = spawnSync(process.execPath, [join(out, 'test/bench/bench.js'), ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, BENCH_ROOT: root },
})
process.exitCode = status ?? 1
