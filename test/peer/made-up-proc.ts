// SPDX-License-Identifier: Apache-2.0
// A folder that looks like a node's /proc to the agent: process 1 and a kubelet on the node's network, processes of pods in their namespaces, and those real
// processes of this machine that it shall see.

import fs from 'node:fs'
import path from 'node:path'
import type { TestNetns } from '../support/test-netns.js'

export class MadeUpProc {
  readonly root: string
  #lastPid = 100

  /** Makes the folder. */
  constructor(root: string, node: TestNetns) {
    this.root = root
    fs.mkdirSync(root)
    this.#write(1, 'init', node)
    this.#write(2, 'kubelet', node)
  }

  /** Lets the agent see a real process. */
  show(pid: number): void {
    const shown = path.join(this.root, String(pid))
    fs.rmSync(shown, { force: true })
    fs.symlinkSync(`/proc/${pid}`, shown)
  }

  /** The agent looks for itself at `self`. */
  showAgent(pid: number): void {
    const self = path.join(this.root, 'self')
    fs.rmSync(self, { force: true })
    fs.symlinkSync(String(pid), self)
    this.show(pid)
  }

  addPodProcess(podUid: string, netns: TestNetns): void {
    this.#lastPid += 1
    this.#write(this.#lastPid, 'app', netns, podUid)
  }

  #write(pid: number, name: string, netns: TestNetns, podUid?: string): void {
    const folder = path.join(this.root, String(pid))
    fs.mkdirSync(path.join(folder, 'ns'), { recursive: true })
    fs.symlinkSync(netns.path, path.join(folder, 'ns/net'))
    // Field 22 is the start; what stands before it means nothing here.
    const zeros = Array.from({ length: 18 }, () => '0').join(' ')
    const slice = `kubepods-besteffort-pod${podUid?.replaceAll('-', '_')}.slice`
    const container = `cri-containerd-${String(pid).padStart(64, 'c')}.scope`
    const files = {
      stat: `${pid} (${name}) S ${zeros} ${pid} 0 0\n`,
      cgroup: `0::/${podUid === undefined ? 'init.scope' : `kubepods.slice/${slice}/${container}`}\n`,
      comm: `${name}\n`,
      cmdline: `/usr/bin/${name}\0`,
      status: `Name:\t${name}\nUid:\t0\t0\t0\t0\n`,
    }
    for (const [file, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, file), text)
  }
}
