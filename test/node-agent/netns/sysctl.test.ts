// SPDX-License-Identifier: Apache-2.0
// A program of its own writes the setting, so that /proc/sys can be made read-only for it alone.
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect } from '@jest/globals'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { createTestNetworks } from '../../support/test-netns.js'

const program = fileURLToPath(new URL('../../support/sysctl-in-netns.mjs', import.meta.url))
const networks = createTestNetworks()
afterAll(() => networks.close())
const maybe = testWith('root', hostParts.built ?? hostParts.netns)
const name = 'net/ipv4/ip_forward'

describe('a kernel setting of a pod', () => {
  maybe('is read and written in the pod alone, and a missing one is no error', () => {
    const [pod, agent] = [networks.add('pod'), networks.add('agent')]
    expect(JSON.parse(agent.run([process.execPath, program, pod.path, name, '1']))).toEqual({
      first: { before: '0', after: '1' },
      again: { before: '1', after: '1' },
      missing: {},
      refused: 'EINVAL',
      here: 'written',
    })
  })

  maybe('is written where /proc/sys is read-only, and that stays so for everybody else', () => {
    const [pod, agent] = [networks.add('pod'), networks.add('agent')]
    const readOnly = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"'
    const command = ['unshare', '-m', 'sh', '-c', readOnly, 'sh', process.execPath, program, pod.path, name, '1']
    expect(JSON.parse(agent.run(command))).toEqual({
      first: { before: '0', after: '1' },
      again: { before: '1', after: '1' },
      missing: {},
      refused: 'EINVAL',
      here: 'EROFS',
    })
    expect(agent.run(['cat', `/proc/sys/${name}`])).toBe('0\n')
  })
})
