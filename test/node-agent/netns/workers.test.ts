// SPDX-License-Identifier: Apache-2.0
// Threads run the product's loop from dist/ with jobs made for these tests.
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, describe, expect } from '@jest/globals'
import type { Fields, Logger } from '../../../src/base/log.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import type { JobKey } from '../../../src/node-agent/netns/job.js'
import { listAddressesJob } from '../../../src/node-agent/netns/list-addresses-job.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { hostParts } from '../../support/host-parts.js'
import { countOpenNamespaces } from '../../support/open-namespaces.js'
import { testWith } from '../../support/optional.js'
import { createTestNetworks } from '../../support/test-netns.js'

const entry = new URL('../../support/netns-test-jobs.mjs', import.meta.url)
const builtWorkers = new URL('../../../dist/node-agent/netns/workers.js', import.meta.url)
const built = testWith('built programs', hostParts.built)
const rooted = testWith('root', hostParts.built ?? hostParts.netns)

const lines: unknown[][] = []
const at =
  (level: string) =>
  (fields: Fields, message: string): void =>
    void lines.push([level, fields, message])
const log: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => log }

const networks = createTestNetworks()
const open: NetnsWorkers[] = []
const handles: Netns[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((workers) => workers.close()))
  for (const handle of handles.splice(0)) handle.close()
  lines.length = 0
})
afterAll(() => networks.close())

function start(count = 1): NetnsWorkers {
  const workers = createNetnsWorkers({ log, count, entry })
  open.push(workers)
  return workers
}

function addNetns(label: string): Netns {
  const netns = openNetnsFile(networks.add(label).path)
  handles.push(netns)
  return netns
}

const job = (name: string): JobKey<unknown, unknown> => name
const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'none',
    (error: unknown) => `${(error as Error).name}: ${(error as Error).message}`,
  )
const countDescriptors = (): number => readdirSync('/proc/self/fd').length
const countThreads = (): number => Number(/^Threads:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1])
const whereAmI = (): string => readlinkSync('/proc/thread-self/ns/net')
const linkOf = (netns: Netns): string => `net:[${netns.inode}]`

describe('jobs', () => {
  built('answer with what they return, by the structured clone', async () => {
    const args = { text: 'a', bytes: new Uint8Array([1, 2]), big: 7n, map: new Map([['k', 1]]) }
    expect(await start().run(job('echo'), { args })).toEqual(args)
  })

  built('fail with an error of the class that they threw', async () => {
    const workers = start()
    const thrown = ['InvalidInput', 'Retryable', 'Fatal', 'TypeError'].map((name) =>
      failureOf(workers.run(job('throw error'), { args: { name, message: 'so it is' } })),
    )
    expect(await Promise.all([...thrown, failureOf(workers.run(job('refused call'), { args: 0 }))])).toEqual([
      'InvalidInput: so it is',
      'Retryable: so it is',
      'Fatal: so it is',
      'Error: TypeError: so it is',
      'SystemCallError: setns: EBADF',
    ])
  })

  built('that are not known, or whose arguments cannot be cloned, fail alone', async () => {
    const workers = start()
    const failures = [
      failureOf(workers.run(job('nothing of the kind'), { args: 0 })),
      failureOf(workers.run(job('toString'), { args: 0 })),
      failureOf(workers.run(job('echo'), { args: () => 1 })),
    ]
    expect(await Promise.all(failures)).toEqual([
      'Error: no job is called nothing of the kind',
      'Error: no job is called toString',
      expect.stringMatching('DataCloneError: .* could not be cloned') as unknown,
    ])
    expect(await workers.run(job('echo'), { args: 'still there' })).toBe('still there')
  })

  built('that wait are at work in one thread at the same time', async () => {
    const workers = start()
    const all = Array.from({ length: 40 }, () => workers.run(job('gather'), { args: 40 }))
    expect(await Promise.all(all)).toEqual(Array.from({ length: 40 }, () => 40))
  })

  built('beyond what a thread takes at once wait their turn', async () => {
    const workers = start()
    const all = Array.from({ length: 300 }, () => workers.run(job('wait'), { args: 1 }))
    expect(await Promise.all(all)).toHaveLength(300)
  })

  built('share one thread, unless one occupies it: then there is a second, and no third', async () => {
    const workers = start(2)
    const run = (occupies: boolean): Promise<unknown> =>
      workers.run(job('slow thread'), { args: occupies ? 20 : 0, occupies })
    const idle = await Promise.all([run(false), run(false), run(false)])
    const first = idle[0]
    expect(idle).toEqual([first, first, first])
    const [busy, other, more] = await Promise.all([run(true), run(false), run(true)])
    expect([busy, other === first, [first, other].includes(more)]).toEqual([first, false, true])
  })

  built('log through the logger of the main thread', async () => {
    await start().run(job('log'), { args: { uid: 'u1' } })
    expect(lines).toEqual([['warn', { of: 'a job', uid: 'u1' }, 'something was seen']])
  })
})

describe('inside a namespace', () => {
  rooted('a thread is there for the work, and at home before and after', async () => {
    const home = whereAmI()
    const netns = addNetns('pod')
    const workers = start()
    expect(await workers.run(job('inside'), { netns, args: 0 })).toEqual([home, linkOf(netns), home])
    expect(await workers.run(job('nested'), { netns, args: 0 })).toBe(linkOf(netns))
    expect(await workers.run(job('throw inside'), { netns, args: 0 })).toEqual(['thrown inside', home])
    expect(whereAmI()).toBe(home)
  })

  rooted('no promise is made, and no other namespace entered', async () => {
    const home = whereAmI()
    const [netns, other] = [addNetns('pod'), addNetns('other')]
    const workers = start()
    expect(await failureOf(workers.run(job('await inside'), { netns, args: 0 }))).toBe(
      'Error: work inside a namespace must not wait',
    )
    expect(await failureOf(workers.run(job('nested in another'), { netns, args: other.fd }))).toBe(
      'Error: the thread is inside another namespace',
    )
    expect(await failureOf(workers.run(job('inside'), { args: 0 }))).toBe(
      'Error: the job inside was given no namespace',
    )
    expect(await workers.run(job('home'), { args: 0 })).toBe(home)
  })

  rooted('a netlink socket stays there while the thread is at home, and is waited for off-thread', async () => {
    const netns = addNetns('pod')
    const workers = start()
    const asked = Array.from({ length: 20 }, () => workers.run(job('ask off-thread'), { netns, args: 0 }))
    expect(await Promise.all(asked)).toEqual(Array.from({ length: 20 }, () => true))
  })

  rooted('the namespace stays open for a job whose caller has closed its handle', async () => {
    const home = whereAmI()
    const netns = openNetnsFile(networks.add('pod').path)
    const running = start().run(job('inside'), { netns, args: 0 })
    const link = linkOf(netns)
    netns.close()
    expect(await running).toEqual([home, link, home])
  })

  rooted('200 jobs leave no descriptor and the main thread where it was', async () => {
    const home = whereAmI()
    const testNetns = networks.add('pod')
    testNetns.addAddress('10.1.0.7/24')
    testNetns.addAddress('fd00::7/64')
    const netns = openNetnsFile(testNetns.path)
    const workers = createNetnsWorkers({ log })
    open.push(workers)
    const run = (): Promise<string[]> => workers.run(listAddressesJob, { netns, args: undefined })
    await Promise.all([run(), run()])
    const before = countDescriptors()
    const answers = await Promise.all(Array.from({ length: 200 }, run))
    const wanted = ['10.1.0.7', '127.0.0.1', '::1', 'fd00::7']
    expect(answers.map((addresses) => addresses.sort())).toEqual(answers.map(() => wanted))
    expect([countDescriptors(), whereAmI()]).toEqual([before, home])
    netns.close()
    expect(countDescriptors()).toBe(before - 1)
  })

  rooted('a thread has mounts of its own when it asks for them, and the main thread keeps its', async () => {
    const mounts = readlinkSync('/proc/thread-self/ns/mnt')
    expect(await start().run(job('own mounts'), { args: 0 })).toBe(true)
    expect(readlinkSync('/proc/thread-self/ns/mnt')).toBe(mounts)
  })
})

describe('a thread that dies', () => {
  built.each([
    ['die', 'ended with code 3'],
    ['die of an error', 'nobody catches this'],
  ])('(%s) fails its jobs as retryable, says so, and is replaced', async (name, reason) => {
    const workers = start()
    const first = await workers.run(job('thread'), { args: 0 })
    const open = countOpenNamespaces()
    const failed = [workers.run(job('never'), { args: 0 }), workers.run(job(name), { args: 0 })]
    expect(await Promise.all(failed.map(failureOf))).toEqual(
      failed.map((): unknown => expect.stringMatching(`^Retryable: the worker of namespaces died: .*${reason}$`)),
    )
    expect(lines).toEqual([
      [
        'error',
        { reason: expect.stringMatching(`${reason}$`), jobs: ['never', name] },
        'a worker of namespaces died; its jobs fail and it is replaced',
      ],
    ])
    expect(await workers.run(job('thread'), { args: 0 })).not.toBe(first)
    expect(countOpenNamespaces()).toBe(open)
  })

  rooted('lets go of the namespaces of its jobs', async () => {
    const netns = openNetnsFile(networks.add('pod').path)
    const workers = start()
    const fd = netns.fd
    const failed = failureOf(workers.run(job('die'), { netns, args: 0 }))
    netns.close()
    await failed
    expect(() => readlinkSync(`/proc/self/fd/${fd}`)).toThrow('ENOENT')
  })

  built('whose program is missing says so', async () => {
    const missing = new URL('../../support/not-there.mjs', import.meta.url)
    const workers = createNetnsWorkers({ log, entry: missing })
    open.push(workers)
    expect(await failureOf(workers.run(job('echo'), { args: 0 }))).toMatch(/^Retryable: .*not-there\.mjs/)
  })
})

describe('the end', () => {
  built('waits for jobs at work, takes no more, and leaves no thread and no namespace open', async () => {
    const before = { threads: countThreads(), namespaces: countOpenNamespaces() }
    const workers = start(2)
    const running = [1, 2, 3].map((ms) => workers.run(job('wait'), { args: ms }))
    const closing = workers.close()
    expect(await failureOf(workers.run(job('echo'), { args: 0 }))).toBe(
      'Retryable: the workers of namespaces are being ended',
    )
    await Promise.all(running)
    await closing
    await workers.close()
    expect([countThreads() <= before.threads, lines]).toEqual([true, []])
    expect(countOpenNamespaces()).toBe(before.namespaces)
  })

  built('of workers that never had work is at once', async () => {
    await expect(start().close()).resolves.toBeUndefined()
  })

  built.each([
    ['by itself when no job is at work', `await workers.run('echo', { args: 0 })`, 0],
    [
      'when it wants to, in the middle of a job',
      `void workers.run('never', { args: 0 }); setTimeout(() => process.exit(7), 50)`,
      7,
    ],
  ])('of the process comes %s', (_about, script, code) => {
    const program = `
      import { createNetnsWorkers } from ${JSON.stringify(builtWorkers)}
      const entry = new URL(${JSON.stringify(entry)})
      const workers = createNetnsWorkers({ log: console, entry })
      ${script}`
    const ended = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      encoding: 'utf8',
      env: {},
      timeout: 30_000,
    })
    expect([ended.stderr, ended.status]).toEqual(['', code])
  })
})
