// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { createNetns, openHostNetns, openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { formatNetns, isSameNetns } from '../../../src/node-agent/netns/netns.js'
import { openFile } from '../../../src/node-agent/netns/sys.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { createTestNetworks } from '../../support/test-netns.js'

const networks = createTestNetworks()
const folder = mkdtempSync(join(tmpdir(), 'addressd-handle-'))
afterAll(() => {
  networks.close()
  rmSync(folder, { recursive: true })
})
const maybe = testWith('root', hostParts.netns)

const countDescriptors = (): number => readdirSync('/proc/self/fd').length

function failureOf(open: () => unknown): string {
  try {
    open()
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
  return 'none'
}

// The descriptor of the test process's own namespace stands in for a pod's where nothing is done with it.
const own = '/proc/self/ns/net'

describe('a handle of a namespace', () => {
  test('knows the namespace by inode and device', () => {
    const netns = openNetnsFile(own)
    const { ino, dev } = statSync(own, { bigint: true })
    expect([netns.inode, netns.device, formatNetns(netns)]).toEqual([ino, dev, `${dev}:${ino}`])
    netns.close()
  })

  test('keeps the descriptor open until the last handle is closed, however often each is', () => {
    const before = countDescriptors()
    const first = openNetnsFile(own)
    const second = first.share()
    const third = second.share()
    expect([second.fd, third.fd]).toEqual([first.fd, first.fd])
    first.close()
    first.close()
    second.close()
    second.close()
    expect(statSync(`/proc/self/fd/${third.fd}`, { bigint: true }).ino).toBe(third.inode)
    third.close()
    third.close()
    expect(countDescriptors()).toBe(before)
  })

  test('gives neither descriptor nor further handles once it is closed', () => {
    const netns = openNetnsFile(own)
    netns.close()
    expect([failureOf(() => netns.fd), failureOf(() => netns.share())]).toEqual([
      'Error: the handle of this namespace is closed',
      'Error: the handle of this namespace is closed',
    ])
  })

  test('leaves no descriptor after 1,000 were opened, and 1,000 refused', () => {
    const file = join(folder, 'file')
    writeFileSync(file, '')
    const before = countDescriptors()
    for (let i = 0; i < 1_000; i++) {
      const netns = openNetnsFile(own)
      netns.share().close()
      netns.close()
      failureOf(() => openNetnsFile(file))
    }
    expect(countDescriptors()).toBe(before)
  })

  test('is not to be had of what is no network namespace', () => {
    const file = join(folder, 'regular')
    const link = join(folder, 'link')
    const pipe = join(folder, 'pipe')
    writeFileSync(file, 'no namespace')
    symlinkSync(file, link)
    spawnSync('mkfifo', [pipe])
    const paths = [file, link, pipe, folder, '/dev/null', '/proc/self/stat', '/proc/self/ns/mnt', join(file, 'below')]
    expect(paths.map((path) => failureOf(() => openNetnsFile(path)))).toEqual([
      ...paths.slice(0, -1).map((path) => `InvalidInput: ${path} is no network namespace`),
      `InvalidInput: cannot open the network namespace ${join(file, 'below')}: ENOTDIR`,
    ])
  })

  test('may be had later of a path that is not there', () => {
    const path = join(folder, 'not-there')
    expect(failureOf(() => openNetnsFile(path))).toBe(`Retryable: cannot open the network namespace ${path}: ENOENT`)
  })

  test('takes over a descriptor, and closes one that stands for something else', () => {
    const before = countDescriptors()
    const netns = createNetns(openFile(own))
    expect(netns.inode).toBe(statSync(own, { bigint: true }).ino)
    netns.close()
    const fd = openFile('/dev/null')
    expect(failureOf(() => createNetns(fd, 'what came'))).toBe('InvalidInput: what came is no network namespace')
    expect(countDescriptors()).toBe(before)
  })

  test('of the node is that of process 1', () => {
    mkdirSync(join(folder, '1/ns'), { recursive: true })
    symlinkSync(own, join(folder, '1/ns/net'))
    const host = openHostNetns(folder)
    expect(host.inode).toBe(statSync(own, { bigint: true }).ino)
    host.close()
  })

  maybe('is the same exactly for the same living namespace', () => {
    const [a, b] = [networks.add('a'), networks.add('b')]
    const handles = [a, a, b].map(({ path }) => openNetnsFile(path))
    const [one, again, other] = handles as [(typeof handles)[0], (typeof handles)[0], (typeof handles)[0]]
    expect([isSameNetns(one, again), isSameNetns(one, other)]).toEqual([true, false])
    for (const handle of handles) handle.close()
  })
})
