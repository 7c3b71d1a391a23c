"""redis-py's lock on asyncio, with its defaults: a new try every 100 ms. The protocol is in benches/peers/README.md."""

import asyncio
import json
import struct
import sys
import time

from redis.asyncio import BlockingConnectionPool, Redis

url, work, tasks, ttl, warmup, window, section, think, patience, path = sys.argv[1:]
tasks = int(tasks)
ttl, warmup, window, section, think, patience = (
    int(ms) / 1000 for ms in (ttl, warmup, window, section, think, patience)
)
record = struct.Struct("<5Q")
records = [[] for _ in range(tasks)]


def key_of(number):
    if work.startswith("key:"):
        return work.removeprefix("key:")
    return "hot" if work == "hot" else f"key{number}"


async def task(client, number, end):
    key = key_of(number)
    # The call to time is the cheapest there is for an integer.
    now = time.monotonic_ns
    log = records[number]
    while (asked := now()) < end:
        lock = client.lock(key, timeout=ttl, blocking_timeout=patience)
        if not await lock.acquire():
            raise TimeoutError(f"{key} was not free within {patience} s")
        entered = now()
        if section:
            await asyncio.sleep(section)
        left = now()
        await lock.release()
        log.append((number, asked, entered, left, now()))
        if think:
            await asyncio.sleep(think)


async def main():
    pool = BlockingConnectionPool.from_url(url, max_connections=tasks)
    client = Redis(connection_pool=pool)
    await client.ping()
    print("ready", flush=True)
    start = int(sys.stdin.readline().removeprefix("go "))
    await asyncio.sleep(max(0, (start - time.monotonic_ns()) / 1e9))
    end = start + round((warmup + window) * 1e9)
    crew = [asyncio.create_task(task(client, number, end)) for number in range(tasks)]
    done, waiting = await asyncio.wait(crew, timeout=warmup + window + patience)
    errors = [repr(error) for error in (one.exception() for one in done) if error]
    with open(path, "wb") as file:
        for log in records:
            file.write(b"".join(record.pack(*one) for one in log))
    print(json.dumps({"lost": len(waiting) + len(errors), "errors": errors[:5]}), flush=True)
    for one in waiting:
        one.cancel()
    await client.aclose()
    await pool.disconnect()


asyncio.run(main())
