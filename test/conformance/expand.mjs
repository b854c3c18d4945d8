// SPDX-License-Identifier: Apache-2.0
// Reads a published address/ or authorization/ case and gives, for each step, everything a test compares, with the case's deviation applied:
// { step, upsert, delete, remote, full: { address: Map name -> {version, aliases, hex, decoded}, authorization: Map }, pushes: { address: { must, may, removed }, authorization: {…} }, lookups: [{ keys, resources, removed }], restarted }
// must: names that are pushed; may: names that can be; everything else must not. A name whose recorded push a deviation makes meaningless is judged by our own expected states.
import fs from 'node:fs'
// services with a range among their addresses: they may be sent once more when a member was sent or removed (xds-semantics 8.4)
const ranged = (now, before, told) =>
  [...now]
    .filter(
      ([n, x]) =>
        x.decoded?.service?.addresses?.some((a) => a.length !== undefined) &&
        told.some((m) => [now, before].some((l) => l.get(m)?.decoded?.workload?.services?.[n])),
    )
    .map(([n]) => n)
export function expand(c) {
  const rec = { address: new Map(), authorization: new Map() }
  let mine = { address: new Map(), authorization: new Map() }
  const added = new Map(),
    out = []
  for (const s of c.steps) {
    const names = {
      address: new Set(Object.keys(s.state.address ?? {})),
      authorization: new Set(s.state.authorization ?? []),
    }
    const kinds = ['address', 'authorization'],
      next = {}
    for (const k of kinds) {
      for (const x of s[k]) rec[k].set(x.name, x)
      for (const n of [...rec[k].keys()]) if (!names[k].has(n)) rec[k].delete(n)
      next[k] = new Map(rec[k])
    }
    const ex = c.deviation?.expect?.[s.step] ?? {}
    const aliases = (x) =>
      x.decoded?.workload && (x.decoded.workload.addresses ?? []).map((a) => `${x.decoded.workload.network ?? ''}/${a}`)
    const moved = new Map() // workloads whose aliases differ from the recorded ones: name -> [recorded, expected]
    for (const [n, x] of Object.entries(ex)) {
      const k =
        x === null
          ? rec.address.has(n)
            ? 'address'
            : 'authorization'
          : x.decoded?.workload || x.decoded?.service
            ? 'address'
            : 'authorization'
      if (x === null) {
        next[k].delete(n)
        added.delete(n)
      } else {
        next[k].set(n, {
          name: n,
          ...(rec[k].get(n)?.aliases ? { aliases: aliases(x) ?? rec[k].get(n).aliases } : {}),
          ...x,
        })
        const was = rec[k].get(n)?.aliases,
          is = was && aliases(x)
        if (is && String(is) !== String(was)) moved.set(n, [was, is])
        if (!rec[k].has(n)) added.set(n, [k, x])
      }
    }
    for (const [n, [k, x]] of added) if (!(n in ex) && !rec[k].has(n)) next[k].set(n, { name: n, ...x })
    const pushes = {}
    for (const k of kinds) {
      const must = [...next[k]]
          .filter(([n, x]) => mine[k].get(n)?.hex !== x.hex)
          .map(([n]) => n)
          .sort(),
        removed = [...mine[k].keys()].filter((n) => !next[k].has(n)).sort()
      pushes[k] = {
        must,
        may: [
          ...must,
          ...(s.pushes[k].resent ?? []),
          ...(k === 'address' ? ranged(next[k], mine[k], [...must, ...removed]) : []),
        ],
        removed,
      }
    }
    const restarted = { address: new Map(next.address), authorization: new Map(next.authorization) }
    if (s.freshDiffers && !c.deviation)
      for (const k of kinds)
        for (const [n, x] of Object.entries(s.freshDiffers[k] ?? {}))
          if (x) restarted[k].set(n, { name: n, ...x })
          else restarted[k].delete(n)
    const found = (keys, l) => {
      let r = l
      for (const [n, [was, is]] of moved) {
        const has = r.some((x) => x.name === n),
          byOld = keys.length === 1 && was.includes(keys[0]),
          byNew = keys.some((q) => is.includes(q))
        r = r.filter((x) => x.name !== n)
        if (byNew || (has && !byOld)) r = [...r, { name: n, aliases: is }]
      }
      return r
    }
    out.push({
      step: s.step,
      upsert: s.upsert,
      delete: s.delete,
      remote: s.remote,
      full: next,
      pushes,
      restarted,
      lookups: Object.entries(s.lookups ?? {})
        .filter(([, r]) => !r.deviation)
        .map(([q, r]) => ({
          keys: q.split(' '),
          resources: found(q.split(' '), r.resources),
          removed: r.oursRemoved ?? r.removed,
        })),
    })
    mine = { address: new Map(next.address), authorization: new Map(next.authorization) }
  }
  return out
}
if (process.argv[1]?.endsWith('expand.mjs'))
  for (const f of process.argv.slice(2))
    for (const s of expand(JSON.parse(fs.readFileSync(f))))
      console.log(f, s.step, s.full.address.size, s.full.authorization.size, JSON.stringify(s.pushes))
