-- Extends the leases that are live. {call} the first of the numbers of this call. No result.
-- A row that another transaction has locked is skipped; lease_look shows that it was not extended.
INSERT INTO {records} (name, lock_until, locked_at, locked_by, mark, state, call_id)
SELECT r.name, GREATEST(r.lock_until, {now} + INTERVAL {c.ttl} MICROSECOND), r.locked_at, r.locked_by, GREATEST(r.mark, {c.mark}), {c.state}, {call} + {c.i}
FROM {from} WHERE {on} AND {live}
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE lock_until = VALUES(lock_until), mark = VALUES(mark), state = COALESCE(VALUES(state), {records}.state),
  call_id = VALUES(call_id)
