// SPDX-License-Identifier: Apache-2.0
// The built programs as a person runs them. Needs dist/; without it these are skipped aloud.
import { describe, expect, test } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))
const isBuilt = existsSync(`${root}dist/main/addressd.js`)
if (!isBuilt) console.warn('skipped: the programs are not built; run npm run build')
const maybe = isBuilt ? test : test.skip
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { version: string }

function run(program: string, args: string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [`${root}bin/${program}`, ...args], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', ...env },
  })
  return { status, stdout, stderr }
}

describe('every program', () => {
  maybe.each(['addressd', 'addressd-node', 'addressctl'])('%s tells its version and its use', (program) => {
    expect(run(program, ['--version'])).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' })
    const help = run(program, ['--help'])
    expect([help.status, help.stderr]).toEqual([0, ''])
    expect(help.stdout).toContain(`Usage: ${program} `)
  })

  maybe.each(['addressd', 'addressd-node', 'addressctl'])('%s refuses a command that it does not have', (program) => {
    const { status, stdout, stderr } = run(program, ['fly'])
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toContain("unknown command 'fly'")
  })
})

describe('addressd serve', () => {
  maybe.each([['serve'], ['discovery']])('%s --help shows groups, flags, environment names and defaults', (command) => {
    const { status, stdout } = run('addressd', [command, '--grpcAddr', ':1', '--help'])
    expect(status).toBe(0)
    for (const part of [
      'Listening:',
      '--grpcAddr ADDRESS',
      'PILOT_DEBOUNCE_AFTER=DURATION',
      '(default: 10ms)',
      '--httpsAddr',
    ]) {
      expect(stdout).toContain(part)
    }
  })

  maybe('says everything that is wrong, at once, and starts nothing', () => {
    const result = run('addressd', ['serve', '--files', root, '--grpcaddr', ':0', '--shutdownDuration', '10'], {
      PILOT_ENABLE_AMBIENT: 'maybe',
      ADDRESSD_COLOUR: 'red',
    })
    expect(result).toEqual({
      status: 2,
      stdout: '',
      stderr: [
        'addressd: the settings have 4 problems:',
        '  --grpcaddr is not a flag of this command (did you mean --grpcAddr?)',
        '  PILOT_ENABLE_AMBIENT: "maybe" is not a boolean; write true or false',
        '  --shutdownDuration: "10" is not a duration; write it like 20ms, 10s or 1m30s',
        '  ADDRESSD_COLOUR is not an environment name that this program knows',
        'See addressd serve --help.',
        '',
      ].join('\n'),
    })
  })

  maybe('does not start without ambient mode', () => {
    const { status, stderr } = run('addressd', ['serve', '--files', root], { PILOT_ENABLE_AMBIENT: 'false' })
    expect(status).toBe(2)
    expect(stderr).toContain('PILOT_ENABLE_AMBIENT: false leaves nothing to serve')
  })
})

describe('addressd-node', () => {
  maybe('run --help shows groups, flags, environment names and defaults', () => {
    const { status, stdout } = run('addressd-node', ['run', '--help'])
    expect(status).toBe(0)
    for (const part of [
      'Which pods are in the mesh:',
      '--node-name NAME',
      'AMBIENT_DNS_CAPTURE=BOOLEAN',
      '(default: kube-system)',
      '(default: name of the host; environment: NODE_NAME)',
    ]) {
      expect(stdout.replace(/\s+/g, ' ')).toContain(part)
    }
  })

  maybe('tells all that is wrong with its settings at once, and starts nothing', () => {
    const { status, stdout, stderr } = run('addressd-node', ['run', '--anything', '--monitoring-port', 'x'], {
      HOST_PROBE_SNAT_IP: '1.2.3',
      ADDRESSD_NO_SUCH: '1',
    })
    expect([status, stdout]).toEqual([2, ''])
    for (const part of ['--anything', '--monitoring-port', 'HOST_PROBE_SNAT_IP: "1.2.3"', 'ADDRESSD_NO_SUCH']) {
      expect(stderr).toContain(part)
    }
  })

  maybe('names what is missing when it has nothing to read, and what excludes each other', () => {
    expect(run('addressd-node', ['run']).stderr).toContain('nothing to read: give --files DIR or --kubeconfig FILE')
    const off = run('addressd-node', ['run', '--files', '.'], { AMBIENT_ENABLED: 'false' })
    expect([off.status, off.stderr]).toEqual([
      2,
      expect.stringContaining('AMBIENT_ENABLED: false leaves nothing to do'),
    ])
  })

  maybe('names the setting of an address, or of selectors, that are none', () => {
    const address = run('addressd-node', ['run', '--files', '.'], { XDS_ADDRESS: 'http://10.0.0.1:15010' })
    expect([address.status, address.stderr]).toEqual([
      2,
      expect.stringContaining(
        '  XDS_ADDRESS: "http://10.0.0.1:15010": only a control plane on this machine is asked in',
      ),
    ])
    expect(run('addressd-node', ['run', '--files', '.'], { AMBIENT_ENABLEMENT_SELECTOR: '{}' })).toEqual({
      status: 2,
      stdout: '',
      stderr: 'addressd-node: AMBIENT_ENABLEMENT_SELECTOR: the enablement selectors must be a list\n',
    })
  })

  maybe('rules check and apply take annotations about rules, and nothing else for one', () => {
    const check = (text: string) =>
      run('addressd-node', ['rules', 'check', '--netns', '/proc/self/ns/net', '--annotation', text])
    expect(check('addressd.io/exclude-inbound-ports=99999')).toEqual({
      status: 2,
      stdout: '',
      stderr:
        'addressd-node: pod of/--annotation: annotation addressd.io/exclude-inbound-ports: "99999" is no port; write a number from 1 to 65535\n',
    })
    expect([check('app=web').status, check('app=web').stderr]).toEqual([
      2,
      expect.stringMatching(/^addressd-node: --annotation "app=web": write KEY=VALUE with one of ambient\.istio\.io/),
    ])
    expect(check('ambient.istio.io/dns-capture=perhaps').stderr).toMatch(/"perhaps" is not a boolean/)
    expect(run('addressd-node', ['rules', 'show', '--netns', '/x', '--annotation', 'a=b']).status).toBe(2)
    expect(run('addressd-node', ['rules', '--help']).stdout).toContain(
      'Exit codes: 0 complete or done, 1 failed, 2 wrong usage, 3 (check alone) the rules are absent or different.',
    )
  })

  maybe('rules wants a namespace, and refuses what is none', () => {
    expect(run('addressd-node', ['rules', 'check']).status).toBe(2)
    expect(run('addressd-node', ['rules', 'check', '--netns', '/etc/hostname'])).toEqual({
      status: 2,
      stdout: '',
      stderr: 'addressd-node: /etc/hostname is no network namespace\n',
    })
  })
})

maybe('addressd prints the page about its configuration', () => {
  const { status, stdout } = run('addressd', ['config-doc'])
  expect(status).toBe(0)
  expect(stdout).toBe(readFileSync(`${root}docs/CONFIG.md`, 'utf8'))
})
