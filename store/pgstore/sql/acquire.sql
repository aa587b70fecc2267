-- Takes what is free of several names. No name may be there twice.
-- $1 names of rows, $2 holders, $3 TTLs in µs, $4 marks, $5 names of records (NULL where no table is shared).
-- A row for each name: number from 1, granted token or NULL, whether there was a row, holder, locked_by, released, token (of a name
-- without a row: the floor), mark, µs left, µs since the grant, state unless the name is only held by somebody else.
-- Of a granted name all but mark and state are as they were before.
--
-- What is not free is only read. What is free is locked without waiting, so that a row that somebody else's transaction has locked
-- holds nobody up. A name that looks free and was not granted has been changed or locked by somebody at this moment.
--
-- Only the insertion of a name waits, for somebody who is inserting or changing it. Names are inserted in their order and before any
-- row is changed, so nobody who waits has what another can be waiting for, and there is no deadlock.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now, (SELECT floor FROM {{meta}} WHERE one = 1) AS floor
), asked AS MATERIALIZED (
  SELECT a.*, c.now, c.floor
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[]) WITH ORDINALITY
    AS a (name, holder, ttl, claim, record, number), clock AS c
), locked AS MATERIALIZED (
  SELECT a.number, a.name, a.holder, a.ttl, a.now, s.holder AS was_holder, s.locked_by, s.released, s.token, s.lock_until, s.locked_at,
    {{record}} AS record
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.lock_until <= a.now AND (a.claim = 0 OR a.claim > s.mark) AND s.token < 9223372036854775807
  FOR NO KEY UPDATE OF s SKIP LOCKED
), made AS (
  INSERT INTO {{table}} (name, lock_until, locked_at, locked_by, holder, token, record)
  SELECT a.name, a.now + a.ttl * interval '1 microsecond', a.now, a.holder, a.holder,
    greatest(a.floor + 1, (extract(epoch FROM a.now) * 1000000)::bigint), a.record
  FROM asked AS a
  WHERE a.claim >= 0 AND a.floor < 9223372036854775807 AND NOT EXISTS (SELECT 1 FROM {{table}} AS s WHERE s.name = a.name)
  ORDER BY a.name
  ON CONFLICT (name) DO NOTHING
  RETURNING name, token
), taken AS (
  UPDATE {{table}} AS s SET
    lock_until = l.now + l.ttl * interval '1 microsecond', locked_at = l.now, locked_by = l.holder, holder = l.holder,
    released = false, token = greatest(s.token + 1, (extract(epoch FROM l.now) * 1000000)::bigint), record = l.record
  FROM locked AS l
  WHERE s.name = l.name AND (SELECT count(*) FROM made) >= 0
  RETURNING s.name, s.token, s.mark, s.state
)
SELECT a.number, coalesce(t.token, m.token), s.name IS NOT NULL,
  coalesce(l.was_holder, s.holder, ''), coalesce(l.locked_by, s.locked_by, ''), coalesce(l.released, s.released, true),
  coalesce(l.token, s.token, a.floor), coalesce(t.mark, s.mark, 0),
  coalesce((extract(epoch FROM coalesce(l.lock_until, s.lock_until) - a.now) * 1000000)::bigint, 0),
  coalesce((extract(epoch FROM a.now - coalesce(l.locked_at, s.locked_at)) * 1000000)::bigint, 0),
  CASE
    WHEN t.name IS NOT NULL THEN t.state
    WHEN a.claim <> 0 AND s.mark >= a.claim OR s.holder = a.holder AND s.locked_by = s.holder THEN s.state
  END
FROM asked AS a
LEFT JOIN {{table}} AS s ON s.name = a.name
LEFT JOIN locked AS l ON l.number = a.number
LEFT JOIN taken AS t ON t.name = a.name
LEFT JOIN made AS m ON m.name = a.name
