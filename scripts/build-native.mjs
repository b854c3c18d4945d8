// SPDX-License-Identifier: Apache-2.0
// Builds the CNI plugin of the host into build/native/: one static program under two names, its own and the one that istio-cni's conventions expect.
// The only step that needs a C compiler; everything else of addressd runs without one.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const source = join(root, 'native/addressd-cni.c')
const folder = join(root, 'build/native')
// musl first: its programs are small and run on every host.
const compilers = process.env.CC ? [process.env.CC] : ['musl-gcc', 'gcc', 'cc']
const flags = ['-std=gnu11', '-static', '-Os', '-s', '-Wall', '-Wextra', '-Werror=implicit-function-declaration']

mkdirSync(folder, { recursive: true })
const program = join(folder, 'addressd-cni')
const fresh = `${program}.${process.pid}`
const problems = []
let built
for (const compiler of compilers) {
  const result = spawnSync(compiler, [...flags, '-o', fresh, source], { encoding: 'utf8' })
  if (result.status === 0) {
    built = compiler
    process.stderr.write(result.stderr)
    break
  }
  problems.push(`${compiler}: ${result.error === undefined ? result.stderr.trim() : 'not on this machine'}`)
}
if (built === undefined) {
  process.stderr.write(
    `The CNI plugin cannot be built: it takes a C compiler that makes static programs.\n${problems.map((p) => `  ${p}\n`).join('')}` +
      'Install one (Debian, Ubuntu: apt-get install musl-tools; Fedora: dnf install musl-gcc; Alpine: apk add gcc musl-dev), or name one with CC=.\n',
  )
  process.exit(1)
}
renameSync(fresh, program)
const alias = join(folder, 'istio-cni')
copyFileSync(program, `${alias}.${process.pid}`)
renameSync(`${alias}.${process.pid}`, alias)
process.stdout.write(`built build/native/addressd-cni (and istio-cni) with ${built}: ${statSync(program).size} bytes\n`)
