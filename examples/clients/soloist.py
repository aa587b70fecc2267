"""Locks, permits and elements of a soloist service, with the standard library of Python alone.

python3 soloist.py URL[,URL…] lease NAME [TTL] | hold NAME | permit NAME LIMIT | element JOB ID

The URLs are instances of one service. TOKEN in the environment is the token of the caller, if the service needs one.
"""

import http.client, itertools, json, os, socket, sys, threading, time, urllib.error, urllib.request, uuid
from urllib.parse import quote

REPLICA = f"{socket.gethostname()}-{os.getpid()}"  # what lists show as the holder


class Problem(Exception):
    """An error that the service reports; code is one of those in docs/operate/service.md."""

    def __init__(self, status, body):
        problem = {"code": f"status {status}", "detail": "not of the service"}
        try:
            problem.update(json.loads(body))
        except (TypeError, ValueError):  # a proxy says it
            pass
        super().__init__(f"{problem['code']}: {problem['detail']}")
        self.status, self.code = status, problem["code"]


def now():
    """An instant, by a clock that is not set, and by one that goes on while the machine is suspended."""
    return time.monotonic(), time.time()


def since(then):
    """Returns how many seconds have passed, by the clock that says more."""
    return max(n - t for n, t in zip(now(), then))


class Soloist:
    def __init__(self, instances, token=None):
        self.instances = itertools.cycle(instances)
        self.instance = next(self.instances)
        self.headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + token} if token else {})}

    def open(self, path, body, timeout, **headers):
        """Sends one request, and returns its response."""
        request = urllib.request.Request(self.instance + path, json.dumps(body).encode(), {**self.headers, **headers}, method="POST")
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as e:
            raise Problem(e.code, e.read()) from None

    def call(self, path, body=None, until=60.0, timeout=10.0, **headers):
        """Sends a request until an instance responds, for `until` seconds. Returns the reply, and when the request that got it was sent."""
        begun = now()
        while True:
            sent = now()
            try:
                with self.open(path, body or {}, timeout, **headers) as response:
                    return json.loads(response.read() or "{}"), sent
            except Problem as e:
                if e.status < 500:
                    raise
                error = e
            except (OSError, http.client.HTTPException) as e:  # no response: it may have been done
                error = e
            if since(begun) > until:
                raise error
            self.instance = next(self.instances)
            time.sleep(0.1)

    def lease(self, path, ttl=30, wait=0):
        """Takes a lease. The key makes it safe to repeat the request, whatever became of it."""
        body = {"ttl": ttl, "wait": wait, "replica": REPLICA}
        return Lease(self, ttl, *self.call(path, body, wait + 60, wait + 10, **{"Idempotency-Key": str(uuid.uuid4())}))

    def hold(self, name, ttl=30):
        """Yields the events of a lock that is held for as long as its connection: one every third of the TTL. At another event than held and alive, and when they end, stop the work.

        The event late is this client's own: the lock could end before the next line is missed. The connection, whose end frees the name, is closed after the work has stopped."""
        sent, event = now(), {"token": None}
        with self.open(f"/v1/locks/{quote(name, '')}/hold", {"ttl": ttl, "wait": ttl / 3, "replica": REPLICA}, ttl / 2) as response:
            try:
                for line in response:
                    event = json.loads(line)
                    held = event["event"] in ("held", "alive")
                    late = held and event["expiresIn"] - since(sent) < ttl / 2
                    yield {**event, "event": "late"} if late else event
                    if late or not held:
                        return
            except socket.timeout:  # no line has come
                yield {**event, "event": "late"}


class Lease:
    """A lease that a thread renews. When it is lost, stop the work: another may have it."""

    def __init__(self, client, ttl, granted, sent):
        self.client, self.ttl, self.granted, self.token = client, ttl, granted, granted["token"]
        self.last = granted["expiresIn"], sent
        self.refused, self.released = threading.Event(), threading.Event()
        threading.Thread(target=self.keep, daemon=True).start()

    def lost(self):
        """Reports whether the lease is lost, or could be: whatever hangs, its end is known."""
        return self.refused.is_set() or self.left() <= 0

    def left(self):
        expires_in, sent = self.last
        return expires_in - since(sent)

    def keep(self):
        while not self.released.wait(self.ttl / 3):
            try:
                reply, sent = self.client.call(self.path("renew"), until=self.left() - self.ttl / 6, timeout=self.ttl / 6)
                if self.lost():
                    return
                self.last = reply["expiresIn"], sent
                print("renewed", flush=True)
            except Exception:  # lost, or no instance has responded
                self.refused.set()
                return

    def path(self, verb):
        return f"/v1/leases/{self.granted['lease']}/{verb}"

    def release(self):
        self.released.set()
        self.client.call(self.path("release"))


def main(urls, what, name, *more):
    client, say = Soloist(urls.split(","), os.environ.get("TOKEN")), lambda *text: print(*text, flush=True)
    if what == "element":
        element = f"/v1/elements/{quote(name, '')}/{quote(more[0], '')}"
        try:
            claim = client.lease(element + "/claim")
        except Problem as e:
            return say(e.code)  # done, held or failed
        claim.released.set()
        client.call(element + "/done", {"lease": claim.granted["lease"]})
        say("processed")
    elif what == "hold":
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
        while True:
            try:
                for event in client.hold(name, ttl=15):
                    say(event["event"], event["token"])
            except (OSError, http.client.HTTPException, Problem) as e:
                say("broken", e)
            client.instance = next(client.instances)
            time.sleep(0.1)
    else:
        if what == "permit":
            lease = client.lease(f"/v1/semaphores/{quote(name, '')}/acquire?limit={more[0]}", wait=60)
        else:
            lease = client.lease(f"/v1/locks/{quote(name, '')}/acquire", *map(float, more), wait=60)
        say("held", lease.token)
        sys.stdin.read()  # the work; check lease.lost() in it
        if lease.lost():
            sys.exit("lost")
        lease.release()
        say("released")


if __name__ == "__main__":
    main(*sys.argv[1:])
