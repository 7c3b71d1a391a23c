// node-redlock on ioredis, with its defaults: a new attempt after 200 ms and some jitter. The
// number of attempts is not limited here. The protocol is in benches/peers/README.md.

import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeFileSync } from 'node:fs';
import Redis from 'ioredis';
import Redlock from 'redlock';

const [url, work, ...rest] = process.argv.slice(2);
const path = rest.pop();
const [tasks, ttl, warmup, window, section, think, patience] = rest.map(Number);
const now = process.hrtime.bigint;

// Several masters, separated by commas, form a quorum.
const masters = url.split(',').map((master) => new Redis(master));
const redlock = new Redlock(masters, { retryCount: -1 });
// Every refused attempt is reported here as well.
redlock.on('error', () => {});

function keyOf(number) {
  if (work.startsWith('key:')) return work.slice('key:'.length);
  return work === 'hot' ? 'hot' : `key${number}`;
}

async function task(number, end, log) {
  const key = keyOf(number);
  for (let asked = now(); asked < end; asked = now()) {
    const lock = await redlock.acquire([key], ttl);
    const entered = now();
    if (section > 0) await sleep(section);
    const left = now();
    await lock.release();
    log.push(asked, entered, left, now());
    if (think > 0) await sleep(think);
  }
}

function write(logs) {
  const count = logs.reduce((sum, log) => sum + log.length / 4, 0);
  const fields = new BigUint64Array(count * 5);
  let place = 0;
  logs.forEach((log, number) => {
    for (let at = 0; at < log.length; at += 4) {
      fields[place] = BigInt(number);
      fields.set(log.slice(at, at + 4), place + 1);
      place += 5;
    }
  });
  writeFileSync(path, new Uint8Array(fields.buffer));
}

async function run(start) {
  await sleep(Math.max(0, Number((start - now()) / 1_000_000n)));
  const end = start + BigInt(warmup + window) * 1_000_000n;
  const logs = Array.from({ length: tasks }, () => []);
  const errors = [];
  let waiting = tasks;
  const crew = logs.map((log, number) =>
    task(number, end, log).then(
      () => (waiting -= 1),
      (error) => errors.push(String(error)),
    ),
  );
  const limit = sleep(warmup + window + patience, undefined, { ref: false });
  await Promise.race([Promise.all(crew), limit]);
  write(logs);
  process.stdout.write(`${JSON.stringify({ lost: waiting, errors: errors.slice(0, 5) })}\n`, () => process.exit());
}

await Promise.all(masters.map((master) => master.ping()));
createInterface({ input: process.stdin }).once('line', (line) => run(BigInt(line.replace('go ', ''))));
console.log('ready');
