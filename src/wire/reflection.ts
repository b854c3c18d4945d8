// SPDX-License-Identifier: Apache-2.0
// Server reflection, so that grpcurl can ask without any files. For the servers that main makes. Serves the committed descriptor set of all of proto/:
// what proto-loader derives by itself lacks map entries and imports, and grpcurl fails on it.

import type { Server } from '@grpc/grpc-js'
import type { PackageDefinition } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { protoFolder } from './protos.js'
import { Reader } from './reader.js'

/** Adds the reflection service (v1 and v1alpha). `services` are the full names that it lists; other services of the set stay resolvable by name. */
export function addReflection(server: Pick<Server, 'addService'>, services: readonly string[]): void {
  const files = readDescriptorFiles(readFileSync(join(protoFolder, 'descriptors.binpb')))
  // The service reads nothing of a definition but its file descriptors.
  const definition = {
    all: { format: 'Protocol Buffer 3 DescriptorProto', type: {}, fileDescriptorProtos: files },
  } as unknown as PackageDefinition
  new ReflectionService(definition, { services: [...services] }).addToServer(server)
}

/** The files of a FileDescriptorSet, each as the bytes of its FileDescriptorProto. Throws ProtocolError on bytes that are none. */
function readDescriptorFiles(set: Buffer): Buffer[] {
  const files: Buffer[] = []
  const reader = new Reader(set, 'FileDescriptorSet')
  while (reader.next()) {
    if (reader.field === 1) files.push(Buffer.from(reader.bytes()))
    else reader.skip()
  }
  return files
}
