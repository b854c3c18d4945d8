// SPDX-License-Identifier: Apache-2.0
// A container image from nothing: one static busybox that sleeps, as an archive that container tools import. Fetches nothing.

import { createHash } from 'node:crypto'

interface TarEntry {
  readonly name: string
  readonly bytes: Buffer
  readonly mode: number
}

/** A POSIX tar archive of plain files. */
export function formatTar(entries: readonly TarEntry[]): Buffer {
  const blocks = entries.flatMap(({ name, bytes, mode }) => {
    const head = Buffer.alloc(512)
    head.write(name, 0)
    head.write(`${mode.toString(8).padStart(7, '0')}\0${'0'.repeat(7)}\0${'0'.repeat(7)}\0`, 100)
    head.write(`${bytes.length.toString(8).padStart(11, '0')}\0${'0'.repeat(11)}\0`, 124)
    head.write('        0', 148)
    head.write('ustar\x0000', 257)
    const sum = head.reduce((total, byte) => total + byte, 0)
    head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    return [head, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]
  })
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

/** The archive of an image `name` that runs `program` (a static busybox) as `sleep`. */
export function formatSleepImage(name: string, program: Buffer): Buffer {
  const layer = formatTar([{ name: 'bin/busybox', bytes: program, mode: 0o755 }])
  const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch
  const config = Buffer.from(
    JSON.stringify({
      architecture,
      os: 'linux',
      config: { Entrypoint: ['/bin/busybox', 'sleep', '100000'], Env: ['PATH=/bin'] },
      rootfs: { type: 'layers', diff_ids: [`sha256:${hash(layer)}`] },
      history: [{ created: '2026-01-01T00:00:00Z' }],
    }),
  )
  const configName = `${hash(config)}.json`
  const manifest = Buffer.from(JSON.stringify([{ Config: configName, RepoTags: [name], Layers: ['layer.tar'] }]))
  return formatTar([
    { name: 'layer.tar', bytes: layer, mode: 0o644 },
    { name: configName, bytes: config, mode: 0o644 },
    { name: 'manifest.json', bytes: manifest, mode: 0o644 },
  ])
}
