-- As release.sql, for one lease, with its parameters as scalars. One row.
WITH seen AS MATERIALIZED (
  SELECT c.now, s.name, s.mark, s.holder = $2::text AND s.locked_by = $2::text AND s.token = $3::bigint AS mine, s.released
  FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now) AS c LEFT JOIN {{table}} AS s ON s.name = $1::text
), locked AS MATERIALIZED (
  SELECT a.now, s.lock_until FROM (SELECT now FROM seen WHERE mine AND NOT released) AS a, {{table}} AS s
  WHERE s.name = $1::text AND s.holder = $2::text AND s.locked_by = $2::text AND s.token = $3::bigint AND NOT s.released
  FOR NO KEY UPDATE OF s SKIP LOCKED
), live AS MATERIALIZED (
  SELECT * FROM locked WHERE lock_until > now
), ended AS (
  UPDATE {{table}} AS s SET
    lock_until = l.now + $4::bigint * interval '1 microsecond', released = true,
    retain_until = greatest(l.now + $4::bigint * interval '1 microsecond', coalesce(l.now + $5::bigint * interval '1 microsecond', {{forever}})),
    mark = greatest(s.mark, $6::bigint), state = CASE WHEN $7::boolean THEN $8::bytea ELSE s.state END
  FROM live AS l WHERE s.name = $1::text
  RETURNING s.name, s.mark, s.token AS ended,
    s.released AND s.token = $3::bigint AND s.lock_until >= l.now + $4::bigint * interval '1 microsecond' AND s.mark >= $6::bigint AND (NOT $7::boolean OR s.state IS NOT DISTINCT FROM $8::bytea) AS written
)
SELECT $1::text, e.name IS NOT NULL, coalesce(e.written, a.mine AND NOT a.released AND NOT EXISTS (SELECT 1 FROM locked AS l WHERE l.lock_until <= l.now), false),
  coalesce(a.mine AND a.released AND a.mark >= $6::bigint, false), coalesce(e.mark, a.mark, 0),
  CASE WHEN e.name IS NOT NULL THEN {{notify}} END
FROM seen AS a LEFT JOIN ended AS e ON true
