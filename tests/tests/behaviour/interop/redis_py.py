"""Takes and releases locks with redis-py's Lock, one command a line, one answer a line."""

import sys

import redis
from redis.exceptions import LockError

client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
lock = None


def acquire(key, seconds, patience):
    """Takes `key`; patience 0 is a single try."""
    global lock
    wanted = client.lock(key, timeout=float(seconds), sleep=0.01)
    patience = float(patience)
    got = wanted.acquire(blocking=patience > 0, blocking_timeout=patience or None)
    if got:
        lock = wanted
    return got


def release():
    return attempt(lock.release)


def forge(key):
    """Tries to release a lock that somebody else holds."""
    other = client.lock(key, timeout=1)
    other.local.token = b"forged"
    return attempt(other.release)


def attempt(action):
    try:
        action()
        return True
    except LockError as error:
        return type(error).__name__


commands = {"acquire": acquire, "release": release, "forge": forge}
for line in sys.stdin:
    name, *arguments = line.split()
    print(commands[name](*arguments), flush=True)
