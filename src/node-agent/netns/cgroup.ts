// SPDX-License-Identifier: Apache-2.0
// Which pod and which container a process belongs to, read from the text of its `/proc/PID/cgroup`. Both cgroup versions and the runtimes' many forms.

import { InvalidInput } from '../../base/errors.js'

/** Empty texts where the cgroups do not say. */
export interface CgroupOwner {
  readonly podUid: string
  readonly containerId: string
}

// ASCII punctuation, and everything else, as members of a character class.
const punctuation = '!-/:-@[-`{-~'
const hex = (count: number): string => `[0-9a-fA-F]{${count}}`
const uid = [8, 4, 4, 4, 12].map(hex).join(`[${punctuation}]?`)
const plain = `[^${punctuation}]+`

const podPath = new RegExp(`[${punctuation}]pod(${uid})[${punctuation}](?:${plain}[${punctuation}])*(${plain})$`)
const crioPath = new RegExp(`crio[${punctuation}](${plain})$`)
// What stands between a pod's part of the path and the `crio` that belongs to it: no punctuation but slashes.
const podBefore = new RegExp(`pod${uid}[${punctuation}](?:[^${punctuation}]|/)*$`)

/** Throws InvalidInput when a line is none of a cgroup file, or when lines speak of different owners. */
export function parseCgroup(text: string): CgroupOwner {
  let owner: CgroupOwner = { podUid: '', containerId: '' }
  for (const line of splitLines(text)) {
    const found = parsePath(selectPath(line))
    if (found === undefined) continue
    if (owner.containerId === '') owner = found
    else if (owner.containerId !== found.containerId) throw new InvalidInput('the cgroups name two containers')
    else if (owner.podUid !== found.podUid) throw new InvalidInput('the cgroups name two pods')
  }
  return owner
}

function splitLines(text: string): string[] {
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** `number:controllers:path`; the path may have colons of its own. */
function selectPath(line: string): string {
  const first = line.indexOf(':')
  const second = first < 0 ? -1 : line.indexOf(':', first + 1)
  if (second < 0) throw new InvalidInput('a line of the cgroups has fewer than three parts')
  return line.slice(second + 1)
}

/** A path that both forms claim, or neither, says nothing. */
function parsePath(path: string): CgroupOwner | undefined {
  const bare = path.replace(/\.scope$/, '')
  const pod = podPath.exec(bare)
  const crio = crioPath.exec(bare)
  const isCrioAlone = crio !== null && !podBefore.test(bare.slice(0, crio.index))
  if (pod !== null) {
    const [, podUid = '', containerId = ''] = pod
    return isCrioAlone ? undefined : { podUid: podUid.replace(/[^0-9a-fA-F]/g, '-'), containerId }
  }
  return isCrioAlone ? { podUid: '', containerId: crio[1] ?? '' } : undefined
}
