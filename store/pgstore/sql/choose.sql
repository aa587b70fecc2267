-- Takes the first free one of several names, unless the holder has one of them. No name may be there twice.
-- $1 names of rows, $2 holder, $3 TTL in µs, $4 names of records (NULL where no table is shared).
-- One row, as in acquire.sql: of the name that the holder has, else of the one that was granted, else of one that looks free and has
-- been changed or locked by somebody at this moment, else of the one that is free first; of one that has no tokens left only if all are so.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now, (SELECT max(floor) FROM {{floor}}) AS floor
), asked AS MATERIALIZED (
  SELECT a.*, c.now, c.floor
  FROM unnest((SELECT $1::text[]), (SELECT $4::text[])) WITH ORDINALITY AS a (name, record, number), clock AS c
), seen AS MATERIALIZED (
  SELECT a.*, s.name IS NOT NULL AS there, s.holder, s.locked_by, s.released, s.mark, s.lock_until, s.locked_at, s.state,
    CASE WHEN s.holder = $2::text AND s.locked_by = s.holder AND s.lock_until > a.now AND s.token < {{granted}} THEN 0 ELSE s.token END AS token,
    coalesce(s.holder = $2::text AND s.locked_by = $2::text AND NOT s.released AND s.lock_until > a.now, false) AS mine,
    coalesce(s.lock_until <= a.now AND s.token < 9223372036854775807, s.name IS NULL AND a.floor < 9223372036854775807) AS free
  FROM asked AS a LEFT JOIN {{table}} AS s ON s.name = a.name
), locked AS MATERIALIZED (
  SELECT a.number, a.name, a.now, s.holder, s.locked_by, s.released, s.token, s.lock_until, s.locked_at,
    {{record}} AS record
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.lock_until <= a.now AND s.token < 9223372036854775807 AND NOT EXISTS (SELECT 1 FROM seen WHERE mine)
    AND a.number < coalesce((SELECT min(number) FROM seen WHERE free AND NOT there), 9223372036854775807)
  ORDER BY a.number LIMIT 1
  FOR NO KEY UPDATE OF s SKIP LOCKED
), floor AS MATERIALIZED (
  SELECT f.floor FROM {{floor}} AS f
  WHERE f.floor = (SELECT max(floor) FROM {{floor}}) AND EXISTS (SELECT 1 FROM seen WHERE free AND NOT there)
    AND NOT EXISTS (SELECT 1 FROM seen WHERE mine) AND NOT EXISTS (SELECT 1 FROM locked)
  FOR KEY SHARE
), free AS (
  SELECT name, now, token, record, true AS there, number FROM locked
  UNION ALL
  SELECT a.name, a.now, f.floor, a.record, false, a.number FROM seen AS a, floor AS f
  WHERE a.free AND NOT a.there AND f.floor < 9223372036854775807
), taken AS (
  INSERT INTO {{table}} AS s (name, lock_until, locked_at, locked_by, holder, released, token, record)
  SELECT f.name, f.now + $3::bigint * interval '1 microsecond', f.now, $2::text, $2::text, f.there,
    greatest(f.token + 1, (extract(epoch FROM f.now) * 1000000)::bigint), f.record
  FROM free AS f ORDER BY f.number LIMIT 1
  ON CONFLICT (name) DO UPDATE SET
    lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by, holder = excluded.holder,
    released = false, token = excluded.token, record = excluded.record
  WHERE excluded.released
  RETURNING s.name, CASE WHEN s.token >= {{granted}} THEN s.token ELSE 0 END AS token, s.mark, s.state, s.holder, s.locked_by, s.released, s.lock_until
)
SELECT a.name, CASE
    WHEN t.holder = $2::text AND t.locked_by = t.holder AND NOT t.released AND t.lock_until >= a.now + $3::bigint * interval '1 microsecond' THEN t.token
    WHEN t.name IS NOT NULL THEN 0
  END, a.there,
  coalesce(l.holder, a.holder, t.holder, ''), coalesce(l.locked_by, a.locked_by, t.locked_by, ''), coalesce(l.released, a.released, t.released, true),
  coalesce(l.token, a.token, a.floor), coalesce(t.mark, a.mark, 0),
  coalesce((extract(epoch FROM least(greatest(coalesce(l.lock_until, a.lock_until, t.lock_until), {{first}}), {{last}}) - a.now) * 1000000)::bigint, 0),
  coalesce((extract(epoch FROM a.now - least(greatest(coalesce(l.locked_at, a.locked_at), {{first}}), {{last}})) * 1000000)::bigint, 0),
  CASE WHEN t.name IS NOT NULL THEN t.state WHEN a.mine OR a.free THEN a.state END
FROM seen AS a
LEFT JOIN locked AS l ON l.number = a.number
LEFT JOIN taken AS t ON t.name = a.name
ORDER BY a.mine DESC, t.token IS NULL, a.free DESC, coalesce(a.lock_until > a.now, false) DESC, a.lock_until, a.number
LIMIT 1
