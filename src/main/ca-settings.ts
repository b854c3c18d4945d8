// SPDX-License-Identifier: Apache-2.0
// The settings about certificates: which authority signs, for how long, and where its roots are given out. Part of the settings table.

import { booleanValue, durationValue, integerValue, nameValue, periodValue, textValue } from '../base/setting-values.js'
import type { SettingsTable } from '../base/settings.js'

const certificates = 'Certificates'

export const caSettings = {
  enableCa: {
    group: certificates,
    env: 'ENABLE_CA_SERVER',
    default: 'true',
    type: booleanValue,
    sentence:
      'Sign certificates for workloads on the TLS port. false leaves the port to --tlsCertFile, and closed without it.',
    fromIstiod: true,
  },
  rootCaDir: {
    group: certificates,
    env: 'ROOT_CA_DIR',
    default: './etc/cacerts',
    type: nameValue('DIR'),
    sentence:
      'An authority to plug in: ca-cert.pem, ca-key.pem, cert-chain.pem and root-cert.pem (or tls.crt, tls.key and ca.crt), watched live. Without these files addressd makes a root of its own.',
    fromIstiod: true,
  },
  rootFile: {
    group: certificates,
    env: 'ADDRESSD_ROOT_FILE',
    default: './var/addressd/root.pem',
    type: nameValue('FILE'),
    sentence:
      'Where a root of our own is kept with its key when objects come from files. With an API server it is Secret istio-ca-secret.',
  },
  rootTtlMs: {
    group: certificates,
    env: 'CITADEL_SELF_SIGNED_CA_CERT_TTL',
    default: '87600h',
    type: periodValue,
    sentence: 'How long a root of our own is valid. It is renewed, under the same key, when a fifth of that is left.',
    fromIstiod: true,
  },
  rootKeyBits: {
    group: certificates,
    env: 'CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE',
    default: '2048',
    type: integerValue(2048, 8192),
    sentence: 'Bits of its RSA key.',
    fromIstiod: true,
  },
  rootCheckMs: {
    group: certificates,
    env: 'CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL',
    default: '1h',
    type: periodValue,
    sentence: 'How often the stored root is looked at, for one that another replica renewed or somebody deleted.',
    fromIstiod: true,
  },
  useCacertsForSelfSigned: {
    group: certificates,
    env: 'USE_CACERTS_FOR_SELF_SIGNED_CA',
    default: 'false',
    type: booleanValue,
    sentence: 'Files in ROOT_CA_DIR that the mesh made itself count as none to plug in; their roots are trusted too.',
    fromIstiod: true,
  },
  multiRoot: {
    group: certificates,
    env: 'ISTIO_MULTIROOT_MESH',
    default: 'false',
    type: booleanValue,
    sentence:
      'Roots in ROOT_CA_DIR may be exchanged while running, when the old ones or the new ones contain the others.',
    fromIstiod: true,
  },
  workloadTtlMs: {
    group: certificates,
    env: 'DEFAULT_WORKLOAD_CERT_TTL',
    default: '24h',
    type: periodValue,
    sentence: 'How long a certificate is valid when nothing is asked for.',
    fromIstiod: true,
  },
  maxWorkloadTtlMs: {
    group: certificates,
    env: 'MAX_WORKLOAD_CERT_TTL',
    default: '2160h',
    type: periodValue,
    sentence: 'A certificate for longer than this is refused.',
    fromIstiod: true,
  },
  customHosts: {
    group: certificates,
    env: 'ISTIOD_CUSTOM_HOST',
    default: '',
    type: textValue('HOSTS'),
    sentence: 'More names for the certificate of the TLS port, separated by commas.',
    fromIstiod: true,
  },
  rootMapName: {
    group: certificates,
    env: 'PILOT_CA_CERT_CONFIGMAP',
    default: 'istio-ca-root-cert',
    type: nameValue('NAME'),
    sentence: 'ConfigMap that is given the roots, in every namespace.',
    fromIstiod: true,
  },
  crlMapName: {
    group: certificates,
    env: 'PILOT_CRL_CONFIGMAP',
    default: 'istio-ca-crl',
    type: nameValue('NAME'),
    sentence: 'ConfigMap that is given the revocation lists.',
    fromIstiod: true,
  },
  enableCrl: {
    group: certificates,
    env: 'PILOT_ENABLE_CA_CRL',
    default: 'true',
    type: booleanValue,
    sentence: 'Give out revocation lists (ca-crl.pem of ROOT_CA_DIR).',
    fromIstiod: true,
  },
  signerPatienceMs: {
    group: certificates,
    env: 'ADDRESSD_SIGNER_PATIENCE',
    default: '1s',
    type: durationValue,
    sentence: 'How long a request may wait until the pods of the node that asks are known here.',
  },
} satisfies SettingsTable
