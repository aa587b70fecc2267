-- {call} the first of the numbers of this call. A row for each lease that is still the last grant of its name: its number in the batch, whether this
-- call has changed it, whether it is live, whether it has been released, mark, FALSE, holder, token and
-- µs left; and one for each row that is corrupt, with TRUE.
SELECT {c.i}, r.call_id = {call} + {c.i}, COALESCE(r.lock_until > {now} AND (r.released = 0 OR r.locked_by <> r.holder), 0),
  IF(r.locked_by = r.holder, r.released <> 0, r.lock_until <= {now}), {r.mark}, NOT COALESCE({sound}, 0), IF(r.locked_by = r.holder, r.holder, NULL), r.token,
  TIMESTAMPDIFF(MICROSECOND, {now}, r.lock_until)
FROM {from} WHERE {on} AND (r.holder = {c.holder} AND r.locked_by = r.holder AND r.token = {c.token} {theirs} OR NOT COALESCE({sound}, 0))
LIMIT {all}
