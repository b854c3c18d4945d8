// SPDX-License-Identifier: Apache-2.0
// A mesh of any size as an API server would hold it: ambient namespaces, nodes, services with 20 pods each, every pod reached over HBONE. The
// same size gives the same objects, byte for byte, so that two servers can be held against each other. Makes plain objects; serves nothing.

export type Json = Record<string, any>

/** Kinds that are not empty, with their place in the API. */
export const meshTypes = {
  Namespace: { apiVersion: 'v1', path: '/api/v1/namespaces', plural: 'namespaces' },
  Node: { apiVersion: 'v1', path: '/api/v1/nodes', plural: 'nodes' },
  Service: { apiVersion: 'v1', path: '/api/v1/services', plural: 'services' },
  Pod: { apiVersion: 'v1', path: '/api/v1/pods', plural: 'pods' },
  EndpointSlice: {
    apiVersion: 'discovery.k8s.io/v1',
    path: '/apis/discovery.k8s.io/v1/endpointslices',
    plural: 'endpointslices',
  },
} as const

export type MeshKind = keyof typeof meshTypes
export const meshKinds = Object.keys(meshTypes) as MeshKind[]

const podsPerService = 20
const podsPerNode = 100
const namespaces = 50
const began = '2026-01-05T09:00:00Z'

/** Address of the pod with this number. */
export function formatPodIp(i: number): string {
  return `10.${16 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`
}

export interface Mesh {
  readonly pods: number
  readonly services: number
  /** One object; `i` from 0 up to count(kind). */
  make(kind: MeshKind, i: number): Json
  count(kind: MeshKind): number
}

export function createMesh(pods: number): Mesh {
  const services = Math.max(1, Math.ceil(pods / podsPerService))
  const nodes = Math.max(1, Math.ceil(pods / podsPerNode))
  const counts = { Namespace: namespaces + 1, Node: nodes, Service: services, Pod: pods, EndpointSlice: services }
  const makers: Record<MeshKind, (i: number) => Json> = {
    Namespace: (i) => makeNamespace(i),
    Node: (i) => makeNode(i),
    Service: (i) => makeService(i),
    Pod: (i) => makePod(i, services, nodes),
    EndpointSlice: (i) => makeSlice(i, { pods, services, nodes }),
  }
  return { pods, services, count: (kind) => counts[kind], make: (kind, i) => makers[kind](i) }
}

const formatNamespace = (service: number): string => `app-${service % namespaces}`
const formatNode = (i: number, nodes: number): string => `node-${i % nodes}`

function formatPodName(i: number, services: number): string {
  return `svc-${i % services}-7d4b9c6f5d-${i.toString(36).padStart(5, '0')}`
}

/** Different for each kind and number, the same in each run. */
function formatUid(kind: number, i: number): string {
  return `00000000-0000-4000-${8000 + kind}-${i.toString(16).padStart(12, '0')}`
}

/** Who set which fields, as the server keeps it beside each object. */
function ownFields(value: any): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {}
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [`f:${key}`, ownFields(child)]))
}

function managed(object: Json, manager: string, subresource = ''): Json {
  return {
    manager,
    operation: 'Update',
    apiVersion: object.apiVersion,
    time: began,
    fieldsType: 'FieldsV1',
    fieldsV1:
      subresource === ''
        ? ownFields({ metadata: object.metadata, spec: object.spec })
        : ownFields({ [subresource]: object[subresource] }),
    ...(subresource === '' ? {} : { subresource }),
  }
}

/** The object with what a server adds to the metadata of each. */
function stored(kind: MeshKind, uid: string, object: Json): Json {
  const whole: Json = { apiVersion: meshTypes[kind].apiVersion, kind, ...object }
  const managedFields = [managed(whole, 'deployer')]
  if (kind === 'Pod') managedFields.push(managed(whole, 'kubelet', 'status'))
  return { ...whole, metadata: { ...object.metadata, uid, creationTimestamp: began, managedFields } }
}

function makeNamespace(i: number): Json {
  const name = i === namespaces ? 'istio-system' : `app-${i}`
  return stored('Namespace', formatUid(1, i), {
    metadata: { name, labels: { 'istio.io/dataplane-mode': 'ambient', 'kubernetes.io/metadata.name': name } },
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  })
}

function makeNode(i: number): Json {
  const labels = { 'topology.kubernetes.io/region': 'r1', 'topology.kubernetes.io/zone': `z${i % 3}` }
  return stored('Node', formatUid(2, i), { metadata: { name: `node-${i}`, labels }, spec: {}, status: {} })
}

function makeService(i: number): Json {
  const clusterIP = `10.${96 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`
  return stored('Service', formatUid(3, i), {
    metadata: { name: `svc-${i}`, namespace: formatNamespace(i) },
    spec: {
      ports: [
        { name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 },
        { name: 'grpc', protocol: 'TCP', port: 9090, targetPort: 'grpc' },
      ],
      selector: { app: `svc-${i}` },
      clusterIP,
      clusterIPs: [clusterIP],
      type: 'ClusterIP',
      sessionAffinity: 'None',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  })
}

function makePod(i: number, services: number, nodes: number): Json {
  const service = i % services
  const app = `svc-${service}`
  const hostIP = `192.168.${(i % nodes) >> 8}.${(i % nodes) & 255}`
  return stored('Pod', formatUid(4, i), {
    metadata: {
      name: formatPodName(i, services),
      namespace: formatNamespace(service),
      labels: {
        app,
        version: 'v1',
        'pod-template-hash': '7d4b9c6f5d',
        'app.kubernetes.io/name': app,
        'app.kubernetes.io/instance': 'prod',
      },
      annotations: {
        'ambient.istio.io/redirection': 'enabled',
        'prometheus.io/scrape': 'true',
        'kubectl.kubernetes.io/restartedAt': began,
      },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: `${app}-7d4b9c6f5d`,
          uid: formatUid(5, service),
          controller: true,
        },
      ],
    },
    spec: makePodSpec(formatNode(i, nodes), `sa-${service % 40}`),
    status: makePodStatus(formatPodIp(i), hostIP),
  })
}

function makePodSpec(nodeName: string, serviceAccountName: string): Json {
  return {
    volumes: [{ name: 'tmp', emptyDir: {} }],
    containers: [
      {
        name: 'app',
        image: 'images.example/app:v1',
        ports: [
          { name: 'http', containerPort: 8080, protocol: 'TCP' },
          { name: 'grpc', containerPort: 9091, protocol: 'TCP' },
        ],
        env: Array.from({ length: 12 }, (_, j) => ({ name: `SETTING_${j}`, value: `value-${j}-of-the-application` })),
        resources: { limits: { memory: '256Mi' }, requests: { cpu: '100m', memory: '128Mi' } },
        volumeMounts: [{ name: 'tmp', mountPath: '/data' }],
        readinessProbe: {
          httpGet: { path: '/healthz', port: 8080, scheme: 'HTTP' },
          timeoutSeconds: 1,
          periodSeconds: 10,
          successThreshold: 1,
          failureThreshold: 3,
        },
        terminationMessagePath: '/dev/termination-log',
        terminationMessagePolicy: 'File',
        imagePullPolicy: 'IfNotPresent',
      },
    ],
    restartPolicy: 'Always',
    terminationGracePeriodSeconds: 30,
    dnsPolicy: 'ClusterFirst',
    serviceAccountName,
    serviceAccount: serviceAccountName,
    nodeName,
    securityContext: {},
    schedulerName: 'default-scheduler',
    tolerations: ['not-ready', 'unreachable'].map((state) => ({
      key: `node.kubernetes.io/${state}`,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: 300,
    })),
    priority: 0,
    enableServiceLinks: true,
    preemptionPolicy: 'PreemptLowerPriority',
  }
}

function makePodStatus(podIP: string, hostIP: string): Json {
  const conditions = ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled']
  return {
    phase: 'Running',
    conditions: conditions.map((type) => ({ type, status: 'True', lastTransitionTime: began })),
    hostIP,
    podIP,
    podIPs: [{ ip: podIP }],
    startTime: began,
    containerStatuses: [
      {
        name: 'app',
        state: { running: { startedAt: began } },
        ready: true,
        restartCount: 0,
        image: 'images.example/app:v1',
        imageID: `images.example/app@sha256:${'ab'.repeat(32)}`,
        containerID: `containerd://${'cd'.repeat(32)}`,
        started: true,
      },
    ],
    qosClass: 'Burstable',
  }
}

function makeSlice(i: number, mesh: { pods: number; services: number; nodes: number }): Json {
  const namespace = formatNamespace(i)
  const endpoints: Json[] = []
  for (let pod = i; pod < mesh.pods; pod += mesh.services) {
    endpoints.push({
      addresses: [formatPodIp(pod)],
      conditions: { ready: true, serving: true, terminating: false },
      targetRef: { kind: 'Pod', namespace, name: formatPodName(pod, mesh.services), uid: formatUid(4, pod) },
      nodeName: formatNode(pod, mesh.nodes),
    })
  }
  return stored('EndpointSlice', formatUid(6, i), {
    metadata: {
      name: `svc-${i}-abcde`,
      namespace,
      labels: {
        'kubernetes.io/service-name': `svc-${i}`,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      },
    },
    endpoints,
    ports: [
      { name: 'http', protocol: 'TCP', port: 8080 },
      { name: 'grpc', protocol: 'TCP', port: 9091 },
    ],
    addressType: 'IPv4',
  })
}
