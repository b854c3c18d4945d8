// SPDX-License-Identifier: Apache-2.0
// Types of generate.mjs, for the test that compares.
export function protoFiles(): string[]
export function generateTypes(outFolder: string): void
export function generateDescriptors(outFile: string): void
export function hasProtoc(): boolean
