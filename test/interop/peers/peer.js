// Locks with redlock of npm for whoever writes to its standard input; the requests are those of test/java's Peer, but bench.
//
// Arguments: the URL of the server, the key of a lock with * in the place of its name, and the name of the package: redlock4 or redlock5.
'use strict'

const fs = require('fs')
const readline = require('readline')
const { Redis } = require('ioredis')

const [url, template, name] = process.argv.slice(2)
const Redlock = name === 'redlock4' ? require(name) : require(name).default
const client = new Redis(url)
const once = new Redlock([client], { retryCount: 0 }) // extends and releases: those of a lock that is lost would be tried as often as its claim
once.on('error', () => {})
const held = new Map()
const pause = 5 // ms between two attempts

const reply = (...words) => process.stdout.write(words.join('\t') + '\n')
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// acquire returns the lock, or null if it is another's. Both releases report that as an error, as they do a server that is gone.
async function acquire (name, atMost, wait) {
  const redlock = new Redlock([client], { retryCount: Math.ceil(wait / pause), retryDelay: pause, retryJitter: 0 })
  redlock.on('error', () => {})
  const key = template.replace('*', () => name)
  try {
    return await (redlock.acquire ? redlock.acquire([key], atMost) : redlock.lock(key, atMost))
  } catch (e) {
    if (e.name === 'LockError' || e.name === 'ExecutionError') return null
    throw e
  }
}

const release = (lock) => lock.release ? once.release(lock) : once.unlock(lock)

async function count (name, path, times) {
  for (let i = 0; i < times; i++) {
    const lock = await acquire(name, 3600000, 300000)
    const number = parseInt(fs.readFileSync(path, 'utf8'), 10)
    await sleep(1)
    fs.writeFileSync(path, String(number + 1))
    await release(lock)
  }
}

async function answer (id, verb, ...words) {
  switch (verb) {
    case 'lock': {
      const lock = await acquire(words[0], Number(words[1]), Number(words[3]))
      if (!lock) return reply(id, 'refused')
      held.set(id, lock)
      return reply(id, 'held', '0')
    }
    case 'extend':
      held.set(words[0], await once.extend(held.get(words[0]), Number(words[1])))
      return reply(id, 'ok')
    case 'unlock':
      await release(held.get(words[0]))
      return reply(id, 'ok')
    case 'count':
      await count(words[0], words[1], Number(words[2]))
      return reply(id, 'ok')
  }
  throw new Error('there is no request ' + verb)
}

client.ping().then(() => {
  reply('0', 'ready')
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', (line) => {
    const words = line.split('\t')
    answer(...words).catch((e) => reply(words[0], 'error', String(e).replace(/\s+/g, ' ')))
  })
  lines.on('close', () => process.exit(0))
})
