// SPDX-License-Identifier: Apache-2.0
// Where in the API the objects of a chart live.

import type { Manifest } from './golden.js'

const plurals: Readonly<Record<string, string>> = {
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  ConfigMap: 'configmaps',
  CustomResourceDefinition: 'customresourcedefinitions',
  DaemonSet: 'daemonsets',
  Deployment: 'deployments',
  Namespace: 'namespaces',
  Pod: 'pods',
  PodDisruptionBudget: 'poddisruptionbudgets',
  ResourceQuota: 'resourcequotas',
  Role: 'roles',
  RoleBinding: 'rolebindings',
  Service: 'services',
  ServiceAccount: 'serviceaccounts',
}

/** The path that an object of this kind is created at. Throws on a kind that no chart of ours makes. */
export function toCollectionPath({ apiVersion, kind, metadata }: Manifest): string {
  const plural = plurals[kind as string]
  if (plural === undefined) throw new Error(`where objects of kind ${kind as string} live is not known`)
  const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion as string}`
  const within = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace as string}`
  return `${root}${within}/${plural}`
}

export function toObjectPath(object: Manifest): string {
  return `${toCollectionPath(object)}/${object.metadata.name as string}`
}
