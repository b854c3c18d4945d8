// SPDX-License-Identifier: Apache-2.0
// The plugin where it lives: at the end of a chain of real plugins, run by a real containerd that a client drives as kubelet does. The server is real too;
// who is of the mesh is the test's.

import { afterAll, beforeAll, beforeEach, describe, expect } from '@jest/globals'
import { existsSync } from 'node:fs'
import { Retryable } from '../../src/base/errors.js'
import { openCniRoom, toIdentity, type CniRoom } from '../support/cni-room.js'
import { testWith } from '../support/optional.js'
import { openContainerdRoom, whyNoContainerd, type ContainerdRoom, type SandboxPod } from './containerd-room.js'

const missing = whyNoContainerd()
const withContainerd = testWith('containerd', missing)

let agent: CniRoom
let host: ContainerdRoom
let lastPod = 0

beforeAll(async () => {
  if (missing !== undefined) return
  agent = await openCniRoom({ excludeNamespaces: ['kube-system'] })
  host = await openContainerdRoom({
    cni_agent_run_dir: agent.folder,
    pod_namespace: 'istio-system',
    exclude_namespaces: ['kube-system'],
  })
}, 90_000)
afterAll(async () => {
  if (missing !== undefined) return
  await host.close()
  await agent.close()
}, 30_000)
beforeEach(() => {
  if (missing !== undefined) return
  const { decisions } = agent
  decisions.enrolments.length = 0
  decisions.released.length = 0
  decisions.verdict = (pod) => ({ kind: 'eligible', pod: toIdentity(pod) })
  decisions.onEnroll = () => Promise.resolve()
})

function podOf(namespace: string, name: string): SandboxPod {
  lastPod += 1
  return { namespace, name, uid: `00000000-0000-4000-8000-${String(lastPod).padStart(12, '0')}` }
}

describe('a sandbox of a real containerd', () => {
  withContainerd('is enrolled before it starts, and let go of when it ends', async () => {
    let wasThere = false
    agent.decisions.onEnroll = (_pod, { netnsPath }) => {
      wasThere = netnsPath !== undefined && existsSync(`${host.hostRoot}${netnsPath}`)
      return Promise.resolve()
    }
    const pod = podOf('apps', 'web-1')
    const sandbox = await host.run(pod)
    const ip = await host.addressOf(sandbox)
    const enrolment = agent.decisions.enrolments[0]
    const netnsPath = enrolment?.netnsPath ?? ''
    expect(agent.decisions.enrolments).toEqual([
      { pod: 'apps/web-1', uid: pod.uid, ips: [ip], netnsPath, containerId: sandbox },
    ])
    expect(ip).toMatch(/^10\.88\.7\.\d+$/)
    expect(netnsPath).toMatch(/^\/(var\/)?run\/netns\/cni-/)
    expect(wasThere).toBe(true)
    expect(host.onHost('nsenter', `--net=${netnsPath}`, 'ip', '-4', '-o', 'address', 'show', 'dev', 'eth0')).toContain(
      ` ${ip}/24 `,
    )

    await host.remove(sandbox)
    expect(new Set(agent.decisions.released)).toEqual(new Set([`${sandbox} ${netnsPath}`]))
    expect(existsSync(`${host.hostRoot}${netnsPath}`)).toBe(false)
  })

  withContainerd('does not start when enrolment fails: the runtime says why in our words', async () => {
    agent.decisions.onEnroll = () =>
      Promise.reject(new Retryable('no ztunnel is connected; see that ztunnel runs on this node'))
    await expect(host.run(podOf('apps', 'web-2'))).rejects.toThrow(
      'pod apps/web-2 could not be taken into the mesh: no ztunnel is connected; see that ztunnel runs on this node',
    )
    // The runtime takes down what it had made, and the next try is a new sandbox.
    const tried = agent.decisions.enrolments[0]?.netnsPath ?? ''
    expect(existsSync(`${host.hostRoot}${tried}`)).toBe(false)
    agent.decisions.onEnroll = () => Promise.resolve()
    await host.remove(await host.run(podOf('apps', 'web-2')))
    expect(agent.decisions.enrolments).toHaveLength(2)
    expect(agent.decisions.enrolments[1]?.netnsPath).not.toBe(tried)
  })

  withContainerd('starts as ever when it is not of the mesh', async () => {
    agent.decisions.verdict = () => ({ kind: 'ineligible', reason: 'no label asks for it' })
    const sandbox = await host.run(podOf('apps', 'plain'))
    expect(await host.addressOf(sandbox)).toMatch(/^10\.88\.7\.\d+$/)
    await host.remove(sandbox)
    expect(agent.decisions.enrolments).toEqual([])
  })

  withContainerd(
    'of the mesh waits while the agent is away; the agent itself, excluded namespaces and removals do not',
    async () => {
      const running = await host.run(podOf('apps', 'before'))
      await agent.server.close()
      await expect(host.run(podOf('apps', 'meanwhile'))).rejects.toThrow(`${agent.folder}/pluginevent.sock`)
      await host.remove(running)
      for (const pod of [podOf('istio-system', 'addressd-node-x7'), podOf('kube-system', 'dns-1')]) {
        const sandbox = await host.run(pod)
        expect(await host.addressOf(sandbox)).toMatch(/^10\.88\.7\.\d+$/)
        await host.remove(sandbox)
      }
      const later = host.run(podOf('apps', 'meanwhile'))
      await agent.server.listen()
      await host.remove(await later)
      expect(agent.decisions.enrolments.map(({ pod }) => pod)).toEqual(['apps/before', 'apps/meanwhile'])
    },
  )

  withContainerd('is one of many that start at once', async () => {
    const pods = Array.from({ length: 8 }, (_, i) => podOf('apps', `many-${i}`))
    const sandboxes = await Promise.all(pods.map((pod) => host.run(pod)))
    const seen = new Map(agent.decisions.enrolments.map((e) => [e.pod, [e.uid, e.containerId, e.ips[0]]]))
    const expected = await Promise.all(
      pods.map(async (pod, i) => {
        const sandbox = sandboxes[i] ?? ''
        return [`${pod.namespace}/${pod.name}`, [pod.uid, sandbox, await host.addressOf(sandbox)]] as const
      }),
    )
    expect(seen).toEqual(new Map(expected))
    await Promise.all(sandboxes.map((sandbox) => host.remove(sandbox)))
  })
})
