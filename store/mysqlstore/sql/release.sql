-- Releases the leases that are live. {call} the first of the numbers of this call. No result.
-- In a table shared with ShedLock a lock of its is released by its locked_by and token: by force, for a JVM that died.
-- A row that another transaction has locked is skipped; lease_look shows that it was not released.
INSERT INTO {records} (name, lock_until, locked_at, locked_by, released, mark, state, retain_until, call_id)
SELECT r.name, {now} + INTERVAL {c.ttl} MICROSECOND, r.locked_at, r.locked_by, 1, GREATEST({r.mark}, {c.mark}), {c.state},
  IF({c.retain} < 0, '9999-12-31 23:59:59.999999', {now} + INTERVAL {c.retain} MICROSECOND), {call} + {c.i}
FROM {from} WHERE {on} AND ({live} {theirs})
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE lock_until = VALUES(lock_until), released = 1, mark = VALUES(mark),
  state = COALESCE(VALUES(state), {records}.state), retain_until = VALUES(retain_until), call_id = VALUES(call_id)
