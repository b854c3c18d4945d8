// SPDX-License-Identifier: Apache-2.0
// Makes what is derived from the .proto files here and committed: TypeScript types (src/wire/generated) and the descriptor set that server reflection serves.
// Run `node proto/generate.mjs` after a change; a test compares. Needs protoc for the descriptor set.

import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const protoFolder = fileURLToPath(new URL('.', import.meta.url))
const root = join(protoFolder, '..')

/** Every definition, by path inside this folder, in a fixed order. */
export function protoFiles() {
  return readdirSync(protoFolder, { recursive: true, withFileTypes: true })
    .filter((file) => file.name.endsWith('.proto'))
    .map((file) => relative(protoFolder, join(file.parentPath ?? file.path, file.name)))
    .sort()
}

/** Writes the types of all messages but our own service's, whose shapes are written by hand in camelCase. */
export function generateTypes(outFolder) {
  const tool = join(root, 'node_modules/.bin/proto-loader-gen-types')
  const files = protoFiles().filter((file) => !file.startsWith('addressd/'))
  const options = ['--keepCase', '--longs=String', '--enums=String', '--oneofs', '--grpcLib=@grpc/grpc-js']
  const extensions = ['--importFileExtension=.js', '--targetFileExtension=.ts']
  // Relative to the root: the output names its sources, and no machine's paths may stand in it.
  execFileSync(tool, [...options, ...extensions, '-I', 'proto', '-O', outFolder, ...files], {
    stdio: 'pipe',
    cwd: root,
  })
}

/** Writes the descriptors of all files and of what they import. Throws when there is no protoc. */
export function generateDescriptors(outFile) {
  execFileSync('protoc', ['-I', protoFolder, '--include_imports', `--descriptor_set_out=${outFile}`, ...protoFiles()], {
    stdio: 'pipe',
  })
}

/** Whether descriptors can be made on this machine. */
export function hasProtoc() {
  try {
    execFileSync('protoc', ['--version'], { stdio: 'pipe' })
    return true
  } catch {
    return false
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const generated = join(root, 'src/wire/generated')
  rmSync(generated, { recursive: true, force: true })
  generateTypes(generated)
  generateDescriptors(join(protoFolder, 'descriptors.binpb'))
}
