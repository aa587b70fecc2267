-- {name}, {holder}, {token} of a completion. At most one row, locked until the transaction ends: whether the lease is live, released, mark,
-- µs left, µs since the grant, state.
SELECT holder = {holder} AND locked_by = holder AND token = {token} AND released = 0 AND lock_until > {now}, released, mark,
  TIMESTAMPDIFF(MICROSECOND, {now}, lock_until), TIMESTAMPDIFF(MICROSECOND, locked_at, {now}), state
FROM {records} WHERE name = {name} FOR UPDATE
