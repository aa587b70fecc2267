-- As list.sql, in a table shared with ShedLock: the names are those of the records; {lock} begins that of a row of which only ShedLock
-- knows, {bare_first} and {bare_last} bound the names of such rows.
(SELECT r.record AS shown, r.holder, r.locked_by, r.released, {r.token}, {r.mark},
  TIMESTAMPDIFF(MICROSECOND, {now}, r.lock_until), TIMESTAMPDIFF(MICROSECOND, r.locked_at, {now}), LENGTH(r.state), r.state
FROM {records} AS r WHERE r.record >= {first} AND r.record < {last} ORDER BY r.record LIMIT {count})
UNION ALL
(SELECT CONCAT({lock}, r.name) AS shown, r.holder, r.locked_by, r.released, {r.token}, {r.mark},
  TIMESTAMPDIFF(MICROSECOND, {now}, r.lock_until), TIMESTAMPDIFF(MICROSECOND, r.locked_at, {now}), LENGTH(r.state), r.state
FROM {records} AS r WHERE r.record IS NULL AND r.name >= {bare_first} AND r.name < {bare_last} ORDER BY r.name LIMIT {count})
ORDER BY shown LIMIT {count}
