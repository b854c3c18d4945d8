// SPDX-License-Identifier: Apache-2.0
// Names ordered by the revision that last changed them. A reader's whole pending state is one number: the revision it has seen.
// Holds only what some reader still lacks; keeps names, never resources, so that whoever reads late gets the newest.

/** Of a name that changed several times only the last time is kept. */
export class RevisionLog {
  /** In ascending order of revision; an element counts only while `#latest` agrees. */
  #entries: { readonly name: string; readonly revision: number }[] = []
  readonly #latest = new Map<string, number>()

  /** Names that are held. */
  get size(): number {
    return this.#latest.size
  }

  /** These names changed at this revision. Revisions must not fall from call to call. */
  record(revision: number, names: Iterable<string>): void {
    for (const name of names) {
      if (this.#latest.get(name) === revision) continue
      this.#latest.set(name, revision)
      this.#entries.push({ name, revision })
    }
    // Each name may have left one dead element per change: compact before these outnumber the living.
    if (this.#entries.length > 64 && this.#entries.length > 2 * this.#latest.size) this.#keep(0)
  }

  /** Names whose last change is after `revision`, in order of that change. */
  since(revision: number): string[] {
    const names: string[] = []
    for (let i = this.#firstAfter(revision); i < this.#entries.length; i++) {
      const entry = this.#entries[i]
      if (entry !== undefined && this.#latest.get(entry.name) === entry.revision) names.push(entry.name)
    }
    return names
  }

  /** Nobody will ask for changes up to `revision` any more. */
  forget(revision: number): void {
    const first = this.#firstAfter(revision)
    if (first === 0) return
    for (let i = 0; i < first; i++) {
      const entry = this.#entries[i]
      if (entry !== undefined && this.#latest.get(entry.name) === entry.revision) this.#latest.delete(entry.name)
    }
    this.#keep(first)
  }

  #keep(from: number): void {
    this.#entries = this.#entries.slice(from).filter((e) => this.#latest.get(e.name) === e.revision)
  }

  #firstAfter(revision: number): number {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >> 1
      const entry = this.#entries[middle]
      if (entry !== undefined && entry.revision <= revision) low = middle + 1
      else high = middle
    }
    return low
  }
}
