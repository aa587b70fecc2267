-- Takes the wanted names that have a row. {call} the first of the numbers of this call. No result.
-- What is held is only read, without a lock. A row that another transaction has locked is skipped; acquire_look shows that it was.
INSERT INTO {records} (name, lock_until, locked_at, locked_by, holder, released, token, mark, taken_from, record, call_id)
SELECT r.name, {now} + INTERVAL {c.ttl} MICROSECOND, {now}, CONVERT({c.holder} USING utf8mb4), {c.holder}, 0,
  GREATEST(GREATEST({r.token}, {c.above}) + 1, {micros}), {r.mark}, IF(r.released OR r.locked_by <> r.holder, NULL, r.locked_at), {c.record}, {call} + {c.i}
FROM {from_wanted}
WHERE {is_wanted} AND r.lock_until <= {now} AND ({c.mark} = 0 OR {r.mark} < {c.mark}) AND GREATEST({r.token}, {c.above}) < {max} AND {sound}
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE lock_until = VALUES(lock_until), locked_at = VALUES(locked_at), locked_by = VALUES(locked_by),
  holder = VALUES(holder), released = 0, token = VALUES(token), mark = VALUES(mark), taken_from = VALUES(taken_from), record = VALUES(record),
  call_id = VALUES(call_id)
