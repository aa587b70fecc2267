// Locks, permits and elements of a soloist service, with the fetch of JavaScript alone.
//
// node soloist.mjs URL[,URL…] lease NAME [TTL] | hold NAME | permit NAME LIMIT | element JOB ID
//
// The URLs are instances of one service. TOKEN in the environment is the token of the caller, if the service needs one.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { hostname } from "node:os";

const replica = `${hostname()}-${process.pid}`; // what lists show as the holder
const now = () => [performance.now(), Date.now()]; // a clock that is not set, and one that goes on while the machine is suspended
const since = (then) => Math.max(...now().map((n, i) => n - then[i])) / 1000; // seconds, by the clock that says more
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** An error that the service reports; code is one of those in docs/operate/service.md. */
class Problem extends Error {
  constructor(status, body) {
    super(`${body.code}: ${body.detail}`);
    Object.assign(this, { code: body.code, status });
  }
}

class Soloist {
  constructor(instances, token) {
    this.instances = instances;
    this.headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  }

  next() {
    this.instances.push(this.instances.shift());
  }

  /** Sends one request, and returns its response. */
  async open(path, body, signal, headers = {}) {
    const init = { method: "POST", headers: { ...this.headers, ...headers }, body: JSON.stringify(body), signal };
    const response = await fetch(this.instances[0] + path, init);
    if (!response.ok) {
      const byProxy = { code: `status ${response.status}`, detail: "not of the service" };
      throw new Problem(response.status, { ...byProxy, ...(await response.json().catch(() => null)) });
    }
    return response;
  }

  /** Sends a request until an instance responds, for `until` seconds. Returns the reply, and when the request that got it was sent. */
  async call(path, { body = {}, until = 60, timeout = 10, headers } = {}) {
    const begun = now();
    for (;;) {
      const sent = now();
      try {
        const response = await this.open(path, body, AbortSignal.timeout(Math.ceil(timeout * 1000)), headers);
        const text = await response.text();
        return [text ? JSON.parse(text) : {}, sent];
      } catch (e) {
        // Without a response it may have been done, and 503 may pass, as what a proxy says.
        if ((e instanceof Problem && e.status < 500) || since(begun) > until) throw e;
      }
      this.next();
      await sleep(0.1);
    }
  }

  /** Takes a lease. The key makes it safe to repeat the request, whatever became of it. */
  async lease(path, { ttl = 30, wait = 0 } = {}) {
    const headers = { "Idempotency-Key": randomUUID() };
    return new Lease(this, ttl, ...(await this.call(path, { body: { ttl, wait, replica }, until: wait + 60, timeout: wait + 10, headers })));
  }

  /**
   * Yields the events of a lock that is held for as long as its connection: one every third of the TTL. At another event than held and alive, and when they end, stop the work.
   * The event late is this client's own: the lock could end before the next line is missed. The connection, whose end frees the name, is closed after the work has stopped.
   */
  async *hold(name, ttl = 30) {
    const sent = now();
    const connection = new AbortController();
    let timer;
    const inTime = (coming) => { // gives null if it has not come by then
      clearTimeout(timer);
      return Promise.race([coming, new Promise((resolve) => (timer = setTimeout(resolve, (ttl / 2) * 1000, null)))]);
    };
    try {
      const response = await inTime(this.open(`/v1/locks/${encodeURIComponent(name)}/hold`, { ttl, wait: ttl / 3, replica }, connection.signal));
      if (!response) throw new Error("no response");
      const parts = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = "", event; ; ) {
        const part = await inTime(parts.read());
        if (!part) yield { ...event, event: "late" };
        if (!part || part.done) return;
        const lines = (text + part.value).split("\n");
        text = lines.pop();
        for (const line of lines) {
          event = JSON.parse(line);
          const held = ["held", "alive"].includes(event.event);
          const late = held && event.expiresIn - since(sent) < ttl / 2;
          yield late ? { ...event, event: "late" } : event;
          if (late || !held) return;
        }
      }
    } finally {
      clearTimeout(timer);
      connection.abort();
    }
  }
}

/** A lease that is renewed. When it is lost, stop the work: another may have it. */
class Lease {
  constructor(client, ttl, granted, sent) {
    Object.assign(this, { client, ttl, granted, token: granted.token, expiresIn: granted.expiresIn, sent });
    this.timer = setTimeout(() => this.keep(), (ttl / 3) * 1000);
  }

  /** Whether the lease is lost, or could be: whatever hangs, its end is known. */
  get lost() {
    return this.refused || this.left <= 0;
  }

  get left() {
    return this.expiresIn - since(this.sent);
  }

  async keep() {
    try {
      const [reply, sent] = await this.client.call(this.path("renew"), { until: this.left - this.ttl / 6, timeout: this.ttl / 6 });
      if (this.lost) return;
      Object.assign(this, { expiresIn: reply.expiresIn, sent });
      console.log("renewed");
      if (!this.released) this.timer = setTimeout(() => this.keep(), (this.ttl / 3) * 1000);
    } catch {
      this.refused = true; // lost, or no instance has responded
    }
  }

  path(verb) {
    return `/v1/leases/${this.granted.lease}/${verb}`;
  }

  stop() {
    this.released = true;
    clearTimeout(this.timer);
  }

  async release() {
    this.stop();
    await this.client.call(this.path("release"));
  }
}

const [urls, what, name, more] = process.argv.slice(2);
const client = new Soloist(urls.split(","), process.env.TOKEN);
const worked = once(process.stdin.resume(), "end"); // the work
if (what === "element") {
  const element = `/v1/elements/${encodeURIComponent(name)}/${encodeURIComponent(more)}`;
  try {
    const claim = await client.lease(`${element}/claim`);
    claim.stop();
    await client.call(`${element}/done`, { body: { lease: claim.granted.lease } });
    console.log("processed");
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
    console.log(e.code); // done, held or failed
  }
} else if (what === "hold") {
  worked.then(() => process.exit(0));
  for (;;) {
    try {
      for await (const event of client.hold(name, 15)) console.log(event.event, event.token);
    } catch (e) {
      console.log("broken", e.message);
    }
    client.next();
    await sleep(0.1);
  }
} else {
  const path = what === "permit" ? `/v1/semaphores/${encodeURIComponent(name)}/acquire?limit=${more}` : `/v1/locks/${encodeURIComponent(name)}/acquire`;
  const ttl = what === "lease" && more ? Number(more) : undefined;
  const lease = await client.lease(path, { ttl, wait: 60 });
  console.log("held", lease.token);
  await worked; // check lease.lost in it
  if (lease.lost) throw new Error("lost");
  await lease.release();
  console.log("released");
}
process.exit(0);
