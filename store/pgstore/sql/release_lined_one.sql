-- As release_lined.sql, for one lease, with its parameters as scalars. One row.
WITH seen AS MATERIALIZED (
  SELECT c.now, s.name, s.mark, s.holder = $2::text AND s.locked_by = $2::text AND s.token = $3::bigint AS mine, s.released
  FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now) AS c LEFT JOIN {{table}} AS s ON s.name = $1::text
), locked AS MATERIALIZED (
  SELECT a.now, s.token, s.lock_until FROM (SELECT now FROM seen WHERE mine AND NOT released) AS a, {{table}} AS s
  WHERE s.name = $1::text AND s.holder = $2::text AND s.locked_by = $2::text AND s.token = $3::bigint AND NOT s.released
  FOR NO KEY UPDATE OF s SKIP LOCKED
), live AS MATERIALIZED (
  SELECT * FROM locked WHERE lock_until > now
), heard AS MATERIALIZED (
  SELECT l.now, l.token, NOT pg_try_advisory_xact_lock({{group}} + get_byte(sha256({{secret}} || convert_to($1::text, 'UTF8')), 0)) AS watched
  FROM live AS l
), next AS MATERIALIZED (
  SELECT w.holder, w.ttl, w.inbox, w.asked
  FROM heard AS h, {{line}} AS w
  WHERE h.watched AND $4::bigint = 0 AND h.token < 9223372036854775807 AND w.name = $1::text AND w.until > h.now
    AND NOT pg_try_advisory_xact_lock_shared(w.inbox)
  ORDER BY w.since, w.holder, w.asked DESC LIMIT 1
  FOR UPDATE OF w SKIP LOCKED
), gone AS (
  DELETE FROM {{line}} AS w USING next AS n WHERE w.name = $1::text AND w.holder = n.holder
), ended AS (
  UPDATE {{table}} AS s SET
    lock_until = h.now + coalesce(n.ttl, $4::bigint) * interval '1 microsecond', released = n.holder IS NULL,
    retain_until = greatest(h.now + $4::bigint * interval '1 microsecond', coalesce(h.now + $5::bigint * interval '1 microsecond', {{forever}})),
    mark = greatest(s.mark, $6::bigint), state = CASE WHEN $7::boolean THEN $8::bytea ELSE s.state END,
    locked_at = CASE WHEN n.holder IS NULL THEN s.locked_at ELSE h.now END,
    locked_by = coalesce(n.holder, s.locked_by), holder = coalesce(n.holder, s.holder),
    token = CASE WHEN n.holder IS NULL THEN s.token ELSE greatest(s.token + 1, (extract(epoch FROM h.now) * 1000000)::bigint) END
  FROM heard AS h LEFT JOIN next AS n ON true
  WHERE s.name = $1::text
  RETURNING s.name, s.token, h.token AS ended, s.mark, s.state, s.lock_until, h.now, h.watched, n.holder AS heir, n.inbox, n.asked,
    s.released = (n.holder IS NULL) AND s.mark >= $6::bigint AND (NOT $7::boolean OR s.state IS NOT DISTINCT FROM $8::bytea)
    AND s.holder = coalesce(n.holder, $2::text) AND s.locked_by = s.holder AND s.lock_until >= h.now + coalesce(n.ttl, $4::bigint) * interval '1 microsecond'
    AND (s.token = h.token) = (n.holder IS NULL) AND s.token >= h.token AS written
)
SELECT $1::text, e.name IS NOT NULL, coalesce(e.written, a.mine AND NOT a.released AND NOT EXISTS (SELECT 1 FROM locked AS l WHERE l.lock_until <= l.now), false),
  coalesce(a.mine AND a.released AND a.mark >= $6::bigint, false), coalesce(e.mark, a.mark, 0),
  CASE WHEN e.name IS NOT NULL THEN {{hand}} END
FROM seen AS a LEFT JOIN ended AS e ON true
