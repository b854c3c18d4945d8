// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { Retryable } from '../../../src/base/errors.js'
import { findKubeletUid } from '../../../src/node-agent/rules/kubelet-uid.js'

const roots: string[] = []
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true })
})

/** A /proc with these processes: pid, name, arguments, real uid. */
function layOut(...processes: readonly (readonly [number, string, string, number])[]): string {
  const root = mkdtempSync(join(tmpdir(), 'adt-proc-'))
  roots.push(root)
  mkdirSync(join(root, 'sys'))
  mkdirSync(join(root, '7'))
  for (const [pid, comm, cmdline, uid] of processes) {
    mkdirSync(join(root, String(pid)))
    writeFileSync(join(root, String(pid), 'comm'), `${comm}\n`)
    writeFileSync(join(root, String(pid), 'cmdline'), cmdline.replaceAll(' ', '\0'))
    writeFileSync(join(root, String(pid), 'status'), `Name:\t${comm}\nUid:\t${uid}\t0\t0\t0\nGid:\t5\t5\t5\t5\n`)
  }
  return root
}

describe("kubelet's user", () => {
  test('is the real one of a process that is called so and was started so', async () => {
    expect(
      await findKubeletUid(layOut([1, 'systemd', '/sbin/init', 0], [900, 'kubelet', '/usr/bin/kubelet --v=2', 1001])),
    ).toBe(1001)
    expect(await findKubeletUid(layOut([5, 'kubelite', '/snap/kubelite --kubelet-args-file=x', 0]))).toBe(0)
    expect(
      await findKubeletUid(layOut([5, 'kubelet', 'something else', 3], [6, 'k3s', '/usr/local/bin/k3s server', 4])),
    ).toBe(4)
    expect(await findKubeletUid(layOut([6, 'k3s-agent', 'k3s agent', 12]))).toBe(12)
  })

  test('is asked for again later where there is none', async () => {
    await expect(findKubeletUid(layOut([1, 'kubelet-proxy', 'kubelet', 0]))).rejects.toThrow(Retryable)
  })
})
