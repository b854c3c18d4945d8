// SPDX-License-Identifier: Apache-2.0
// The settings about what is written back to the API server. Part of the settings table.

import { booleanValue, nameValue, textValue } from '../base/setting-values.js'
import type { SettingsTable } from '../base/settings.js'

const control = 'What is written back'

export const controlSettings = {
  enableStatus: {
    group: control,
    env: 'AMBIENT_ENABLE_STATUS',
    default: 'true',
    type: booleanValue,
    sentence:
      'Write conditions into the status of Services, ServiceEntries, WorkloadEntries and AuthorizationPolicies. Only one replica does, only to an API server, and only where something differs.',
    fromIstiod: true,
  },
  enableUntaint: {
    group: control,
    env: 'PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS',
    default: 'false',
    type: booleanValue,
    sentence: 'Take the taint from a node once the node agent there is ready.',
    fromIstiod: true,
  },
  untaintName: {
    group: control,
    env: 'PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME',
    default: 'cni.istio.io/not-ready',
    type: nameValue('KEY'),
    sentence: 'Key of that taint; its effect does not matter.',
    fromIstiod: true,
  },
  cniNamespace: {
    group: control,
    flag: 'cniNamespace',
    default: '',
    type: textValue('NAMESPACE'),
    sentence: 'Namespace of the node agent, whose pods are labelled k8s-app=istio-cni-node. Empty: the own one.',
    fromIstiod: true,
  },
} satisfies SettingsTable
