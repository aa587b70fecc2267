-- {name}, {holder}, {token} of a completion. At most one row, locked until the transaction ends: whether the lease is live, whether the
-- reads of the transaction show its grant, released, mark, µs left, µs since the grant, state.
-- The lock of the outer statement does not reach the inner one, which reads as all of the transaction's plain reads do.
SELECT COALESCE(r.holder = {holder} AND r.locked_by = r.holder AND r.token = {token} AND r.released = 0 AND r.lock_until > {now} AND {sound}, 0),
  EXISTS (SELECT 1 FROM {records} AS p WHERE p.name = {name} AND p.holder = {holder} AND p.token = {token}),
  r.released <> 0, r.mark, COALESCE(TIMESTAMPDIFF(MICROSECOND, {now}, r.lock_until), 0), COALESCE(TIMESTAMPDIFF(MICROSECOND, r.locked_at, {now}), 0), r.state
FROM {records} AS r WHERE r.name = {name} FOR UPDATE
