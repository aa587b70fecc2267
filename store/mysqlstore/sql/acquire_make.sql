-- Takes the wanted names that have no row. {call} the first of the numbers of this call. No result.
-- The floor is locked against a sweep, so that no name is forgotten between its reading and this row. A row that has appeared since is
-- left as it is.
INSERT INTO {records} (name, lock_until, locked_at, locked_by, holder, token, record, call_id)
SELECT {c.row_name}, {now} + INTERVAL {c.ttl} MICROSECOND, {now}, CONVERT({c.holder} USING utf8mb4), {c.holder},
  GREATEST((SELECT m.floor FROM {meta} AS m WHERE m.one = 1 AND {c.row_name} IS NOT NULL LOCK IN SHARE MODE) + 1, {c.above} + 1, {micros}), {c.record}, {call} + {c.i}
FROM {from_absent}
WHERE {is_absent} AND {c.above} < {max} AND (SELECT n.floor FROM {meta} AS n WHERE n.one = 1) < {max}
ON DUPLICATE KEY UPDATE call_id = {records}.call_id
