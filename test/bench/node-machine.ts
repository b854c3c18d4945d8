// SPDX-License-Identifier: Apache-2.0
// A machine for the agent of a node: a namespace that stands for the host, one for each pod with its address, and a /proc of files that leads to them. All of
// it below a folder of its own; close() takes everything away.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTestNetworks, type TestNetns } from '../support/test-netns.js'

export interface MachinePod {
  readonly name: string
  readonly uid: string
  readonly ip: string
  readonly netnsPath: string
}

export interface Machine {
  readonly folder: string
  readonly pods: readonly MachinePod[]
  close(): void
}

const processesPerPod = 3
const otherProcesses = 100

export const namespace = 'shop'

export function createMachine(count: number): Machine {
  const folder = mkdtempSync(join(tmpdir(), 'addressd-bench-node-'))
  const networks = createTestNetworks()
  const close = (): void => {
    networks.close()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const host = networks.add('host')
    let lastPid = 1
    writeProcess(folder, { pid: lastPid, name: 'init', netns: host, podUid: '' })
    writeProcess(folder, { pid: ++lastPid, name: 'kubelet', netns: host, podUid: '' })
    for (let i = 0; i < otherProcesses; i++) {
      writeProcess(folder, { pid: ++lastPid, name: 'daemon', netns: host, podUid: '' })
    }
    const pods = Array.from({ length: count }, (_, i): MachinePod => {
      const netns = networks.add('pod')
      const ip = `10.77.${Math.floor(i / 250)}.${(i % 250) + 1}`
      netns.addAddress(`${ip}/32`)
      const uid = `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`
      for (let k = 0; k < processesPerPod; k++) {
        writeProcess(folder, { pid: ++lastPid, name: 'app', netns, podUid: uid })
      }
      return { name: `pod-${i}`, uid, ip, netnsPath: netns.path }
    })
    return { folder, pods, close }
  } catch (error) {
    close()
    throw error
  }
}

function writeProcess(
  root: string,
  { pid, name, netns, podUid }: { pid: number; name: string; netns: TestNetns; podUid: string },
): void {
  const folder = join(root, 'proc', String(pid))
  mkdirSync(join(folder, 'ns'), { recursive: true })
  symlinkSync(netns.path, join(folder, 'ns/net'))
  // Field 22 is the start; what stands before it means nothing here.
  const zeros = Array.from({ length: 18 }, () => '0').join(' ')
  writeFileSync(join(folder, 'stat'), `${pid} (${name}) S ${zeros} ${pid} 0 0\n`)
  const slice = `kubepods-besteffort-pod${podUid.replaceAll('-', '_')}.slice`
  const scope = `cri-containerd-${'c'.repeat(56)}${String(pid).padStart(8, '0')}.scope`
  const cgroup = podUid === '' ? '0::/init.scope\n' : `0::/kubepods.slice/kubepods-besteffort.slice/${slice}/${scope}\n`
  writeFileSync(join(folder, 'cgroup'), cgroup)
  writeFileSync(join(folder, 'comm'), `${name}\n`)
  writeFileSync(join(folder, 'cmdline'), `/usr/bin/${name}\0`)
  writeFileSync(join(folder, 'status'), `Name:\t${name}\nUid:\t0\t0\t0\t0\n`)
}
