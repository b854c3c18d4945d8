// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import * as grpc from '@grpc/grpc-js'
import { CALLER_HEADER, formatCaller, readCredentials, selectUris, toCredentials } from '../../src/xds/caller.js'

test.each<[string, readonly string[]]>([
  ['', []],
  ['URI:spiffe://a/b', ['spiffe://a/b']],
  ['DNS:a, URI:spiffe://a/b, IP Address:10.0.0.1, URI:x', ['spiffe://a/b', 'x']],
  ['DNS:"a, URI:spiffe://forged", URI:spiffe://a', ['spiffe://a']],
  ['DNS:"a\\", URI:spiffe://forged, DNS:\\"b"', []],
  ['URI:"spiffe://a,b"', ['spiffe://a,b']],
  ['DNS:a,URI:spiffe://forged', []],
  ['URI:a"b, URI:c', []],
  ['DNS:"never closed, URI:spiffe://forged', []],
])('the names %j have the URIs %j', (names, uris) => expect(selectUris(names)).toEqual(uris))

test('what a call brings along is the same at the front and behind it', () => {
  const caller = { address: '10.0.0.1:1', secure: true, certificateUris: ['spiffe://a'] }
  const expected = {
    peer: '10.0.0.1:1',
    secure: true,
    certificateUris: ['spiffe://a'],
    authorization: 'Bearer T',
    clusterId: 'c',
  }
  expect(toCredentials(caller, { authorization: 'Bearer T', clusterid: 'c' })).toEqual(expected)
  const metadata = new grpc.Metadata()
  metadata.set(CALLER_HEADER, formatCaller(caller))
  metadata.set('authorization', 'Bearer T')
  metadata.set('clusterid', 'c')
  expect(readCredentials(metadata)).toEqual(expected)
})

test('a header that was sent twice is neither of its values, and a call from nowhere is plaintext', () => {
  const metadata = new grpc.Metadata()
  metadata.add('clusterid', 'a')
  metadata.add('clusterid', 'b')
  expect(readCredentials(metadata)).toEqual({
    peer: '',
    secure: false,
    certificateUris: [],
    authorization: undefined,
    clusterId: 'a, b',
  })
})
