// SPDX-License-Identifier: Apache-2.0
// Whether it is news that the API server is away. Shared by the reflectors of one server, which all find out at once. Tells nobody itself.

const repeatMs = 60_000

export class Outage {
  #text = ''
  #toldMs = -Infinity

  /** True for the first of the same failures, and again after each minute that it lasts. */
  isNews(text: string, nowMs: number): boolean {
    if (text === this.#text && nowMs - this.#toldMs < repeatMs) return false
    this.#text = text
    this.#toldMs = nowMs
    return true
  }

  /** The server has answered: the next failure is news. */
  end(): void {
    this.#text = ''
  }
}
