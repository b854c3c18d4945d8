// SPDX-License-Identifier: Apache-2.0
// Runs inside a network of its own and joins it to the test outside by sockets in a folder: whoever connects to `dial.sock` and writes "HOST:PORT\n" is
// connected to that place in here, and each "PORT=SOCKET" argument makes a port in here lead out. Ends with its standard input.

import { execFileSync } from 'node:child_process'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'

const [folder, ...forwards] = process.argv.slice(2)

execFileSync('ip', ['link', 'set', 'lo', 'up'])
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))

function splice(a, b) {
  for (const [from, to] of [
    [a, b],
    [b, a],
  ]) {
    from.pipe(to)
    from.on('error', () => to.destroy())
    from.on('close', () => {
      if (!from.readableEnded) to.destroy()
    })
  }
}

function dial(socket) {
  let head = Buffer.alloc(0)
  const take = (bytes) => {
    head = Buffer.concat([head, bytes])
    const end = head.indexOf(10)
    if (end < 0) return
    socket.off('data', take)
    socket.pause()
    const [, host, port] = /^(.*):(\d+)$/.exec(head.subarray(0, end).toString()) ?? []
    if (head.length > end + 1) socket.unshift(head.subarray(end + 1))
    splice(socket, connect({ host, port: Number(port), allowHalfOpen: true }))
  }
  socket.on('data', take)
  socket.on('error', () => socket.destroy())
}

const listening = forwards.map((forward) => {
  const [port, path] = forward.split('=')
  const server = createServer({ allowHalfOpen: true }, (socket) =>
    splice(socket, connect({ path, allowHalfOpen: true })),
  )
  return new Promise((resolve) => server.listen(Number(port), '0.0.0.0', resolve))
})
listening.push(
  new Promise((resolve) => createServer({ allowHalfOpen: true }, dial).listen(join(folder, 'dial.sock'), resolve)),
)
await Promise.all(listening)
console.log('ready')
