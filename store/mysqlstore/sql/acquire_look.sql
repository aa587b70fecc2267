-- {call} the first of the numbers of this call. A row for each name that has one: its number in the batch, 1 if this call has taken it and 2 more if its
-- token is not one that a call gives, holder, locked_by, released, token, mark, µs left, µs since the grant, bytes of state, µs between the lease before it and this one or NULL, state where the
-- answer needs it.
SELECT {c.i}, (r.call_id = {call} + {c.i}) + IF(r.token >= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.locked_at), 0, 2), r.holder, r.locked_by, r.released, {r.token}, {r.mark},
  TIMESTAMPDIFF(MICROSECOND, {now}, r.lock_until), TIMESTAMPDIFF(MICROSECOND, r.locked_at, {now}), LENGTH(r.state),
  TIMESTAMPDIFF(MICROSECOND, r.taken_from, r.locked_at),
  IF(r.holder = {c.holder} OR ({c.mark} <> 0 AND {r.mark} >= {c.mark}), r.state, NULL)
FROM {from} WHERE {on}
LIMIT {all}
