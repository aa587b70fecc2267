-- {first} the first name, {last} a text above the last, {count} how many. A row each, in byte order of the names: name, holder,
-- locked_by, released, token, mark, µs left, µs since the grant, bytes of state, state.
SELECT r.name, r.holder, r.locked_by, r.released, r.token, r.mark,
  TIMESTAMPDIFF(MICROSECOND, {now}, r.lock_until), TIMESTAMPDIFF(MICROSECOND, r.locked_at, {now}), LENGTH(r.state), r.state
FROM {records} AS r WHERE r.name >= {first} AND r.name < {last} ORDER BY r.name LIMIT {count}
