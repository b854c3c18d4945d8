// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import { parseQuestion } from '../../src/wire/question.js'

describe('a question is read as', () => {
  test.each([
    ['10.0.0.5', { form: 'ip', ip: '10.0.0.5' }],
    ['FD00:0:0::1', { form: 'ip', ip: 'fd00::1' }],
    ['10.1.2.3/8', { form: 'range', range: '10.1.2.3/8', masked: '10.0.0.0/8' }],
    ['fd00::/64', { form: 'range', range: 'fd00::/64', masked: 'fd00::/64' }],
    ['/10.0.0.5', { form: 'key', key: '/10.0.0.5' }],
    ['network-2/FD00::0:1', { form: 'key', key: 'network-2/fd00::1' }],
    ['network-2/10.0.0.0/8', { form: 'key', key: 'network-2/10.0.0.0/8' }],
    ['Web.Shop.svc.cluster.local.', { form: 'hostname', hostname: 'web.shop.svc.cluster.local' }],
    ['*.example.com', { form: 'hostname', hostname: '*.example.com' }],
    ['web', { form: 'hostname', hostname: 'web' }],
    ['shop/web-0', { form: 'name', namespace: 'shop', name: 'web-0' }],
    ['shop/7', { form: 'name', namespace: 'shop', name: '7' }],
    ['shop/*.example.com', { form: 'name', namespace: 'shop', name: '*.example.com' }],
    ['Kubernetes//Pod/shop/web-0', { form: 'uid', uid: 'Kubernetes//Pod/shop/web-0' }],
    ['//Pod/shop/web-0', { form: 'uid', uid: '//Pod/shop/web-0' }],
    ['NetworkGateway/far/203.0.113.1/15008', { form: 'uid', uid: 'NetworkGateway/far/203.0.113.1/15008' }],
    [
      'c/networking.istio.io/ServiceEntry/a/b/FD00::1',
      { form: 'uid', uid: 'c/networking.istio.io/ServiceEntry/a/b/FD00::1' },
    ],
  ])('%s', (text, question) => {
    expect(parseQuestion(text)).toEqual(question)
  })
})

describe('refused, with the text in the message:', () => {
  test.each([
    ['', 'it is empty'],
    ['10.0.0.300', 'looks like an IP address'],
    ['010.0.0.1', 'looks like an IP address'],
    ['10.0.0.5:8080', 'looks like an IP address'],
    ['fd00:::1', 'looks like an IP address'],
    ['far/10.0.0.300', '"10.0.0.300" looks like an IP address'],
    ['10.0.0.0/33', 'no namespace/name'],
    ['what is this', 'holds a space'],
    ['web\u0007', 'control character'],
    ['we!b', 'neither an IP address nor a host name'],
    ['/web', 'no namespace/name'],
    ['shop/', 'no namespace/name'],
    ['a/b/c', 'two slashes'],
  ])('%j', (text, reason) => {
    expect(() => parseQuestion(text)).toThrow(InvalidInput)
    expect(() => parseQuestion(text)).toThrow(reason)
    expect(() => parseQuestion(text)).toThrow(JSON.stringify(text))
  })

  test('a text that is endless, of which only the beginning is repeated', () => {
    const message = new RegExp(`^"${'x'.repeat(40)}\\.\\.\\." is not a question: it is longer than 1024 characters`)
    expect(() => parseQuestion('x'.repeat(5000))).toThrow(message)
  })
})
