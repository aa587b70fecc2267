"""Locks with redis.lock.Lock of redis-py for whoever writes to its standard input; the requests are those of test/java's Peer, but bench.

Arguments: the URL of the server, and the key of a lock with * in the place of its name.
"""

import sys
import threading
import time

import redis
from redis.lock import Lock

client = redis.Redis.from_url(sys.argv[1])
template = sys.argv[2]
held = {}
output = threading.Lock()


def reply(*words):
    with output:
        print("\t".join(words), flush=True)


def acquire(name, at_most, wait):
    """Returns the lock, or None. Durations are milliseconds."""
    lock = Lock(client, template.replace("*", name), timeout=at_most / 1000, sleep=0.005, thread_local=False)
    return lock if lock.acquire(blocking=wait > 0, blocking_timeout=wait / 1000 if wait > 0 else None) else None


def count(name, path, times):
    for _ in range(times):
        lock = acquire(name, 3_600_000, 300_000)
        with open(path) as file:
            number = int(file.read())
        time.sleep(0.0001)
        with open(path, "w") as file:
            file.write(str(number + 1))
        lock.release()


def answer(id, verb, *words):
    if verb == "lock":
        held[id] = acquire(words[0], int(words[1]), int(words[3]))
        reply(id, *(["held", "0"] if held[id] else ["refused"]))
    elif verb == "extend":
        held[words[0]].extend(int(words[1]) / 1000, replace_ttl=True)
        reply(id, "ok")
    elif verb == "unlock":
        held.pop(words[0]).release()
        reply(id, "ok")
    elif verb == "count":
        count(words[0], words[1], int(words[2]))
        reply(id, "ok")
    else:
        raise ValueError("there is no request " + verb)


def take(words):
    try:
        answer(*words)
    except redis.exceptions.LockError as e:
        reply(words[0], "error", str(e)) if words[1] != "extend" else reply(words[0], "refused")
    except Exception as e:
        reply(words[0], "error", repr(e).replace("\n", " "))


client.ping()
reply("0", "ready")
for line in sys.stdin:
    threading.Thread(target=take, args=(line.rstrip("\n").split("\t"),), daemon=True).start()
