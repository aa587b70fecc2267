-- Takes what is free of several names. No name may be there twice.
-- $1 names of rows, $2 holders, $3 TTLs in µs, $4 marks, $5 names of records (NULL where no table is shared), $6 what the tokens must be above.
-- A row for each name, with NULL for the second, and another for each that was granted: name, granted token, whether there was a
-- row, holder, locked_by, released, token (of a name without a row: the floor; 0 for a lease of the claimer's with a token that no grant has had), mark, µs left, µs since the grant, state unless the
-- name is only held by somebody else. Of a granted name all but mark and state are as they were before; if there was no row, holder, locked_by, released and
-- µs left are those that it has now. A token of 0 says that the row is not as this statement has written it: a trigger that somebody has put on the table has
-- changed it.
--
-- What is not free is only read. What is free is locked without waiting, so that a row that somebody else's transaction has locked
-- holds nobody up. A name that looks free and was not granted has been changed or locked by somebody at this moment.
--
-- Only the insertion of a name waits, for somebody who is inserting or changing it. Names are inserted in their order and before any
-- row is changed, so nobody who waits has what another can be waiting for, and there is no deadlock.
--
-- A new name's token is above the floor, which stays locked until this statement's end: see schema/floor.sql. Where a sweep has just
-- removed it no name is inserted, and the statement is run again.
--
-- The arrays are selected, and limited by what the planner does not know, so that it counts on one name: one plan serves for batches of
-- every length and is kept, and finds rows by their index however little is known of the table. What was changed is its own row,
-- rather than joined to what was asked, for such a join would be slow for many names.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now, (SELECT max(floor) FROM {{floor}}) AS floor
), asked AS MATERIALIZED (
  SELECT a.*, c.now, c.floor
  FROM clock AS c, unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::text[]),
    (SELECT $6::bigint[])) AS a (name, holder, ttl, claim, record, above)
  LIMIT (SELECT cardinality($1::text[]))
), locked AS MATERIALIZED (
  SELECT a.name, a.holder, a.ttl, a.above, a.now, s.holder AS was_holder, s.locked_by, s.released, s.token, s.lock_until, s.locked_at,
    {{record}} AS record
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.lock_until <= a.now AND (a.claim = 0 OR a.claim > s.mark) AND greatest(s.token, a.above) < 9223372036854775807
  FOR NO KEY UPDATE OF s SKIP LOCKED
), unknown AS MATERIALIZED (
  SELECT a.* FROM asked AS a WHERE a.claim >= 0 AND NOT EXISTS (SELECT 1 FROM {{table}} AS s WHERE s.name = a.name)
), floor AS MATERIALIZED (
  SELECT f.floor FROM {{floor}} AS f WHERE f.floor = (SELECT max(floor) FROM {{floor}}) AND EXISTS (SELECT 1 FROM unknown) FOR KEY SHARE
), made AS (
  INSERT INTO {{table}} AS s (name, lock_until, locked_at, locked_by, holder, token, record)
  SELECT a.name, a.now + a.ttl * interval '1 microsecond', a.now, a.holder, a.holder,
    greatest(greatest(f.floor, a.above) + 1, (extract(epoch FROM a.now) * 1000000)::bigint), a.record
  FROM unknown AS a, floor AS f
  WHERE greatest(f.floor, a.above) < 9223372036854775807
  ORDER BY a.name
  ON CONFLICT (name) DO NOTHING
  RETURNING s.name, CASE WHEN s.token >= {{granted}} THEN s.token ELSE 0 END AS token, s.holder, s.locked_by, s.released, s.lock_until
), taken AS (
  UPDATE {{table}} AS s SET
    lock_until = l.now + l.ttl * interval '1 microsecond', locked_at = l.now, locked_by = l.holder, holder = l.holder,
    released = false, token = greatest(greatest(s.token, l.above) + 1, (extract(epoch FROM l.now) * 1000000)::bigint), record = l.record
  FROM locked AS l
  WHERE s.name = l.name AND (SELECT count(*) FROM made) >= 0
  RETURNING s.name, CASE
      WHEN s.holder = l.holder AND s.locked_by = s.holder AND NOT s.released AND s.lock_until >= l.now + l.ttl * interval '1 microsecond'
        AND s.token >= {{granted}} THEN s.token
      ELSE 0
    END AS granted, l.was_holder, l.locked_by AS was_locked_by, l.released AS was_released, l.token AS was_token,
    s.mark, (extract(epoch FROM l.now - least(greatest(l.locked_at, {{first}}), {{last}})) * 1000000)::bigint AS age, s.state
)
SELECT a.name, NULL::bigint, s.name IS NOT NULL, coalesce(s.holder, ''), coalesce(s.locked_by, ''), coalesce(s.released, true),
  CASE WHEN s.holder = a.holder AND s.locked_by = s.holder AND s.lock_until > a.now AND s.token < {{granted}} THEN 0 ELSE coalesce(s.token, a.floor) END,
  coalesce(s.mark, 0),
  coalesce((extract(epoch FROM least(greatest(s.lock_until, {{first}}), {{last}}) - a.now) * 1000000)::bigint, 0),
  coalesce((extract(epoch FROM a.now - least(greatest(s.locked_at, {{first}}), {{last}})) * 1000000)::bigint, 0),
  CASE WHEN a.claim <> 0 AND s.mark >= a.claim OR s.holder = a.holder AND s.locked_by = s.holder THEN s.state END
FROM asked AS a LEFT JOIN {{table}} AS s ON s.name = a.name
UNION ALL
SELECT name, granted, true, was_holder, was_locked_by, was_released, was_token, mark, 0, age, state FROM taken
UNION ALL
SELECT name, token, false, holder, locked_by, released, (SELECT floor FROM clock), 0,
  (extract(epoch FROM least(greatest(lock_until, {{first}}), {{last}}) - (SELECT now FROM clock)) * 1000000)::bigint, 0, NULL FROM made
