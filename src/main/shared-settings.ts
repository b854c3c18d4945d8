// SPDX-License-Identifier: Apache-2.0
// The settings that mean the same to every long-running program here: where objects come from, and where logs go. Part of each one's table.

import { InvalidInput } from '../base/errors.js'
import { parseLogLevels, type LogLevels } from '../base/pino-log.js'
import { integerValue, nameValue, textValue } from '../base/setting-values.js'
import type { SettingsOf, SettingsTable, ValueType } from '../base/settings.js'

export const objects = 'What is read'

/** Cluster ids are the first segment of workload names; a slash in one would make those ambiguous. */
export const clusterIdValue: ValueType<string> = {
  label: 'ID',
  parse(text) {
    if (text === '' || text.includes('/'))
      throw new InvalidInput(`"${text}" is not a cluster id; it must be without a slash and not empty`)
    return text
  },
}

const logLevelsValue: ValueType<LogLevels> = { label: 'LEVELS', parse: parseLogLevels }

export const objectSettings = {
  kubeconfig: {
    group: objects,
    flag: 'kubeconfig',
    default: '',
    type: textValue('FILE'),
    sentence:
      'Reach the API server as this kubeconfig file says. Without it, and without --files, with the credentials that Kubernetes gives to every pod.',
    fromIstiod: true,
  },
  files: {
    group: objects,
    flag: 'files',
    default: '',
    type: textValue('DIR'),
    sentence:
      'Read manifests (.yaml, .yml, .json; subfolders too) from this folder, watched live, instead of an API server. Nothing is written back.',
  },
  kubernetesHost: {
    group: objects,
    env: 'KUBERNETES_SERVICE_HOST',
    default: '',
    type: textValue('HOST'),
    sentence: 'Set by Kubernetes in every pod: where its API server is. Used without --kubeconfig and --files.',
    fromIstiod: true,
  },
  kubernetesPort: {
    group: objects,
    env: 'KUBERNETES_SERVICE_PORT',
    default: '443',
    type: integerValue(1, 65_535),
    sentence: 'The port that goes with it.',
    fromIstiod: true,
  },
} satisfies SettingsTable

/** Under the heading where the program's pages are. */
export function toLogSettings(group: string) {
  return {
    logLevels: {
      group,
      flag: 'log_output_level',
      default: 'default:info',
      type: logLevelsValue,
      sentence:
        'What is logged: SCOPE:LEVEL pairs, separated by commas; levels are debug, info, warn, error, fatal and none.',
      fromIstiod: true,
    },
    logTarget: {
      group,
      flag: 'log_target',
      default: 'stdout',
      type: nameValue('TARGET'),
      sentence: 'Where logs go, one JSON object a line: stdout, stderr or a file to append to.',
      fromIstiod: true,
    },
  } satisfies SettingsTable
}

/** Problems of the settings above that one of them alone does not show. */
export function selectSourceProblems(settings: SettingsOf<typeof objectSettings>): readonly string[] {
  const { files, kubeconfig, kubernetesHost } = settings
  if (files !== '' && kubeconfig !== '') {
    return ['--files and --kubeconfig exclude each other: objects come from a folder or from an API server']
  }
  if (files === '' && kubeconfig === '' && kubernetesHost === '') {
    return ['nothing to read: give --files DIR or --kubeconfig FILE, or run inside a cluster']
  }
  return []
}
