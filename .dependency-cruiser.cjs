// SPDX-License-Identifier: Apache-2.0
// The direction of imports, one rule a folder: what a folder may reach of ours. Everything else is an error.
const folders = {
  base: [],
  collection: [],
  kube: ['collection', 'base'],
  wire: ['base'],
  address: [
    'collection',
    'kube/records',
    'kube/inputs',
    'kube/selectors',
    'kube/mesh-config',
    'wire',
    'base',
    'xds/source',
  ],
  xds: ['wire', 'base'],
  auth: ['wire', 'base'],
  ca: ['wire', 'base'],
  'node-agent': ['kube', 'collection', 'wire', 'base'],
  control: ['kube', 'collection', 'base', 'address'],
  debug: ['base', 'wire', 'address', 'xds'],
  ctl: ['wire', 'base'],
}
const rules = Object.entries(folders).map(([folder, allowed]) => ({
  name: `${folder}-reaches-only-what-it-may`,
  severity: 'error',
  from: { path: `^src/${folder}/` },
  to: { path: '^src/', pathNot: [`^src/${folder}/`, ...allowed.map((a) => `^src/${a}([/.]|$)`)] },
}))

module.exports = {
  forbidden: [
    ...rules,
    // Generated types name each other in circles as the messages do (Struct, Value); they are erased when built.
    {
      name: 'no-cycles',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/wire/generated/' },
      to: { circular: true },
    },
    {
      name: 'kubernetes-client-in-one-file',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/kube/client\\.ts$' },
      to: { path: '@kubernetes/client-node' },
    },
    {
      name: 'koffi-in-two-files',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/node-agent/(netns/sys|zds/seqpacket)\\.ts$' },
      to: { path: 'koffi' },
    },
    { name: 'only-main-composes', severity: 'error', from: { path: '^src/(?!main/)' }, to: { path: '^src/main/' } },
    { name: 'product-never-imports-tests', severity: 'error', from: { path: '^src/' }, to: { path: '^test/' } },
    { name: 'resolvable', severity: 'error', from: { path: '^src/' }, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'] },
  },
}
