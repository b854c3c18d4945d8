// SPDX-License-Identifier: Apache-2.0
// Text of others, made fit for logs, messages and headers: not too long, and without halves of characters. Never changes what is short and whole.

/** At most `most` characters (UTF-16 units) of the text, with `…` for the rest. Halves of surrogate pairs become U+FFFD, so that every encoder takes it. */
export function shortenText(text: string, most: number): string {
  const short = text.length > most ? `${text.slice(0, most)}…` : text
  return Buffer.from(short).toString()
}
