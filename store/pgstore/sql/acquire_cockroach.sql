-- As acquire.sql, with one row for each name, for CockroachDB: a statement of its may change a table in one place only.
-- It locks no floor. All its transactions are serializable: one that has found no record of a name, and inserts it after another has
-- inserted it, released it and had it swept, has no place in a serial order, for the other did not see its record either. It is refused
-- (40001) and run again.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now, (SELECT max(floor) FROM {{floor}}) AS floor
), asked AS MATERIALIZED (
  SELECT a.*, c.now, c.floor
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
    AS a (name, holder, ttl, claim, record, above), clock AS c
), locked AS MATERIALIZED (
  SELECT a.name, a.holder, a.ttl, a.above, a.now, s.holder AS was_holder, s.locked_by, s.released, s.token, s.lock_until, s.locked_at,
    {{record}} AS record
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.lock_until <= a.now AND (a.claim = 0 OR a.claim > s.mark) AND greatest(s.token, a.above) < 9223372036854775807
  FOR NO KEY UPDATE OF s SKIP LOCKED
), free AS (
  SELECT name, holder, ttl, now, greatest(token, above) AS token, record, true AS there FROM locked
  UNION ALL
  SELECT a.name, a.holder, a.ttl, a.now, greatest(a.floor, a.above), a.record, false FROM asked AS a
  WHERE a.claim >= 0 AND greatest(a.floor, a.above) < 9223372036854775807 AND NOT EXISTS (SELECT 1 FROM {{table}} AS s WHERE s.name = a.name)
), taken AS (
  -- released says for a moment whether the row was there and is locked; one that has appeared since is left alone.
  INSERT INTO {{table}} AS s (name, lock_until, locked_at, locked_by, holder, released, token, record)
  SELECT f.name, f.now + f.ttl * interval '1 microsecond', f.now, f.holder, f.holder, f.there,
    greatest(f.token + 1, (extract(epoch FROM f.now) * 1000000)::bigint), f.record
  FROM free AS f ORDER BY f.name
  ON CONFLICT (name) DO UPDATE SET
    lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by, holder = excluded.holder,
    released = false, token = excluded.token, record = excluded.record
  WHERE excluded.released
  RETURNING s.name, CASE WHEN s.token >= {{granted}} THEN s.token ELSE 0 END AS token, s.mark, s.state, s.holder, s.locked_by, s.released, s.lock_until
)
SELECT a.name, CASE
    WHEN t.holder = a.holder AND t.locked_by = t.holder AND NOT t.released AND t.lock_until >= a.now + a.ttl * interval '1 microsecond' THEN t.token
    WHEN t.name IS NOT NULL THEN 0
  END, s.name IS NOT NULL,
  coalesce(l.was_holder, s.holder, t.holder, ''), coalesce(l.locked_by, s.locked_by, t.locked_by, ''), coalesce(l.released, s.released, t.released, true),
  CASE WHEN l.name IS NULL AND s.holder = a.holder AND s.locked_by = s.holder AND s.lock_until > a.now AND s.token < {{granted}} THEN 0 ELSE coalesce(l.token, s.token, a.floor) END,
  coalesce(t.mark, s.mark, 0),
  coalesce((extract(epoch FROM least(greatest(coalesce(l.lock_until, s.lock_until, t.lock_until), {{first}}), {{last}}) - a.now) * 1000000)::bigint, 0),
  coalesce((extract(epoch FROM a.now - least(greatest(coalesce(l.locked_at, s.locked_at), {{first}}), {{last}})) * 1000000)::bigint, 0),
  CASE
    WHEN t.name IS NOT NULL THEN t.state
    WHEN a.claim <> 0 AND s.mark >= a.claim OR s.holder = a.holder AND s.locked_by = s.holder THEN s.state
  END
FROM asked AS a
LEFT JOIN {{table}} AS s ON s.name = a.name
LEFT JOIN locked AS l ON l.name = a.name
LEFT JOIN taken AS t ON t.name = a.name
