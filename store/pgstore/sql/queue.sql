-- As acquire_one.sql, for one who waits: a name that somebody else has gets a place in its line.
-- $1 name of the row, $2 holder, $3 TTL in µs, $4 inbox. One row: that of acquire.sql, and the instant of this request in µs since 1970.
WITH seen AS MATERIALIZED (
  SELECT c.now, s.name, s.holder, s.locked_by, s.released, s.mark, s.lock_until, s.locked_at, s.state,
    CASE WHEN s.holder = $2::text AND s.locked_by = s.holder AND s.lock_until > c.now AND s.token < {{granted}} THEN 0 ELSE s.token END AS token
  FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now) AS c LEFT JOIN {{table}} AS s ON s.name = $1::text
), locked AS MATERIALIZED (
  SELECT a.now, s.holder AS was_holder, s.locked_by, s.released, s.token, s.locked_at
  FROM (SELECT now FROM seen WHERE lock_until <= now) AS a, {{table}} AS s
  WHERE s.name = $1::text AND s.lock_until <= a.now AND s.token < 9223372036854775807
  FOR NO KEY UPDATE OF s SKIP LOCKED
), taken AS (
  UPDATE {{table}} AS s SET
    lock_until = l.now + $3::bigint * interval '1 microsecond', locked_at = l.now, locked_by = $2::text, holder = $2::text,
    released = false, token = greatest(s.token + 1, (extract(epoch FROM l.now) * 1000000)::bigint)
  FROM locked AS l WHERE s.name = $1::text
  RETURNING CASE
      WHEN s.holder = $2::text AND s.locked_by = s.holder AND NOT s.released AND s.lock_until >= l.now + $3::bigint * interval '1 microsecond'
        AND s.token >= {{granted}} THEN s.token
      ELSE 0
    END AS granted, l.was_holder, l.locked_by AS was_locked_by, l.released AS was_released, l.token AS was_token,
    s.mark, l.locked_at AS was_at, s.state
), floor AS MATERIALIZED (
  SELECT f.floor FROM {{floor}} AS f WHERE f.floor = (SELECT max(floor) FROM {{floor}}) AND EXISTS (SELECT 1 FROM seen WHERE name IS NULL) FOR KEY SHARE
), made AS (
  INSERT INTO {{table}} AS s (name, lock_until, locked_at, locked_by, holder, token)
  SELECT $1::text, a.now + $3::bigint * interval '1 microsecond', a.now, $2::text, $2::text,
    greatest(f.floor + 1, (extract(epoch FROM a.now) * 1000000)::bigint)
  FROM seen AS a, floor AS f
  WHERE f.floor < 9223372036854775807
  ON CONFLICT (name) DO NOTHING
  RETURNING CASE WHEN s.token >= {{granted}} THEN s.token ELSE 0 END AS granted, s.holder, s.locked_by, s.released, s.lock_until
), placed AS (
  INSERT INTO {{line}} (name, holder, asked, since, ttl, inbox, told, until)
  SELECT $1::text, $2::text, a.asked, coalesce((SELECT min(w.since) FROM {{line}} AS w WHERE w.name = $1::text AND w.holder = $2::text), a.asked),
    $3::bigint, $4::bigint, a.lock_until, a.now + $3::bigint * interval '1 microsecond' + interval '1 minute'
  FROM (SELECT s.*, (extract(epoch FROM s.now) * 1000000)::bigint AS asked FROM seen AS s) AS a
  WHERE a.lock_until > a.now AND (a.released OR a.holder <> $2::text OR a.locked_by <> $2::text)
  ON CONFLICT (name, holder, asked) DO NOTHING
), gone AS (
  DELETE FROM {{line}} AS w USING seen AS a
  WHERE w.name = $1::text AND w.holder = $2::text
    AND (NOT a.released AND a.holder = $2::text AND a.locked_by = $2::text OR EXISTS (SELECT 1 FROM taken) OR EXISTS (SELECT 1 FROM made))
)
SELECT $1::text, coalesce(t.granted, m.granted), a.name IS NOT NULL, coalesce(t.was_holder, a.holder, m.holder, ''),
  coalesce(t.was_locked_by, a.locked_by, m.locked_by, ''), coalesce(t.was_released, a.released, m.released, true),
  coalesce(t.was_token, a.token, (SELECT floor FROM floor), (SELECT max(floor) FROM {{floor}})),
  coalesce(t.mark, a.mark, 0),
  coalesce((extract(epoch FROM least(greatest(coalesce(a.lock_until, m.lock_until), {{first}}), {{last}}) - a.now) * 1000000)::bigint, 0),
  coalesce((extract(epoch FROM a.now - least(greatest(coalesce(t.was_at, a.locked_at), {{first}}), {{last}})) * 1000000)::bigint, 0),
  CASE
    WHEN t.granted IS NOT NULL THEN t.state
    WHEN a.holder = $2::text AND a.locked_by = a.holder THEN a.state
  END,
  (extract(epoch FROM a.now) * 1000000)::bigint
FROM seen AS a LEFT JOIN taken AS t ON true LEFT JOIN made AS m ON true
