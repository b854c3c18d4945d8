// SPDX-License-Identifier: Apache-2.0
// PEM blocks in a text. For whoever reads certificates, keys and requests. Does not look at what is inside them.

export interface PemBlock {
  readonly label: string
  readonly der: Buffer
  /** The block as it is written anew: 64 characters a line, a line break at the end. */
  readonly text: string
}

const block = /-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----/g

/** Every block of a text, whatever stands around them. A block whose content is not base64 is none. */
export function parsePem(text: string): PemBlock[] {
  const blocks: PemBlock[] = []
  for (const [, label = '', content = ''] of text.matchAll(block)) {
    const compact = content.replaceAll(/\s/g, '')
    if (compact === '' || !/^[A-Za-z0-9+/]+={0,2}$/.test(compact) || compact.length % 4 !== 0) continue
    const der = Buffer.from(compact, 'base64')
    blocks.push({ label, der, text: formatPem(label, der) })
  }
  return blocks
}

/** One block, with a line break at its end. */
export function formatPem(label: string, der: Uint8Array): string {
  const lines =
    Buffer.from(der.buffer, der.byteOffset, der.byteLength)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
