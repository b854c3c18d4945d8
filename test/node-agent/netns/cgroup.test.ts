// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { parseCgroup } from '../../../src/node-agent/netns/cgroup.js'

const uid = '2c48913c-b29f-11e7-9350-020968147796'
const id = '9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961'

describe('the owner of a process', () => {
  test.each([
    [
      'the outer pod, when a node runs inside a pod',
      `0::/pod${uid}/kubepods/pod${uid.replace('2c', '3d')}/${id}`,
      uid,
      id,
    ],
    ['nobody, when a path has two marks in a row between', `0::/pod${uid}/x//${id}`, '', ''],
    ['nobody, when the path ends in punctuation', `0::/kubepods/pod${uid}/${id}/`, '', ''],
    ['the pod with any punctuation in its uid', `0::/pod${uid.replaceAll('-', '.')}/${id}`, uid, id],
    [
      'the pod, for a crio below a uid without marks',
      `0::/pod${uid.replaceAll('-', '')}/crio-${id}`,
      uid.replaceAll('-', ''),
      id,
    ],
    ['nobody, when a crio stands apart from the pod', `0::/pod${uid}/a-crio-${id}`, '', ''],
    ['a container alone, for crio without a pod', `0::/a.slice/xcrio-${id}.scope`, '', id],
    ['the pod, when a container is called after a crio', `0::/kubepods/pod${uid}/crio-conmon-${id}`, uid, id],
  ])('is %s', (_about, cgroup, podUid, containerId) => {
    expect(parseCgroup(cgroup)).toEqual({ podUid, containerId })
  })

  test('is nobody where one line names a pod and another only its container', () => {
    expect(() => parseCgroup(`1:a:/pod${uid}/${id}\n2:b:/crio-${id}\n`)).toThrow('the cgroups name two pods')
  })

  test('is read from a very long path without delay that grows with its square', () => {
    expect(parseCgroup(`0::${'/a'.repeat(2_000)}${`-pod${uid}`.repeat(40)}/${id}`)).toEqual({
      podUid: uid,
      containerId: id,
    })
  })
})
