-- Keeps leases live. No name may be there twice. As for the plan see acquire.sql.
-- $1 names of rows, $2 holders, $3 tokens, $4 TTLs in µs, $5 marks, $6 whether to replace the state, $7 states.
-- A row for each lease, and another for each that was extended: name, whether it was extended, whether it may be live. One that may be live and was not
-- extended has been changed or locked by somebody at this moment: who has locked it may be about to extend or release it, whatever end it shows, and only of
-- a row that this statement has locked the end counts. One that was extended and is not live is not as this statement has written it: a trigger that somebody
-- has put on the table has changed it.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now
), asked AS MATERIALIZED (
  SELECT a.*, c.now
  FROM clock AS c, unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::bigint[]),
    (SELECT $6::boolean[]), (SELECT $7::bytea[])) AS a (name, holder, token, ttl, mark, replace, state)
  LIMIT (SELECT cardinality($1::text[]))
), locked AS MATERIALIZED (
  SELECT a.*, s.lock_until
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released
  FOR NO KEY UPDATE OF s SKIP LOCKED
), live AS MATERIALIZED (
  SELECT * FROM locked WHERE lock_until > now
), extended AS (
  UPDATE {{table}} AS s SET
    lock_until = greatest(s.lock_until, l.now + l.ttl * interval '1 microsecond'),
    mark = greatest(s.mark, l.mark), state = CASE WHEN l.replace THEN l.state ELSE s.state END
  FROM live AS l WHERE s.name = l.name
  RETURNING s.name, s.holder = l.holder AND s.locked_by = l.holder AND s.token = l.token AND NOT s.released AND s.mark >= l.mark
    AND (NOT l.replace OR s.state IS NOT DISTINCT FROM l.state) AND s.lock_until >= l.now + l.ttl * interval '1 microsecond' AS written
)
SELECT a.name, false,
  coalesce(s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released AND a.name NOT IN (SELECT l.name FROM locked AS l WHERE l.lock_until <= l.now), false)
FROM asked AS a LEFT JOIN {{table}} AS s ON s.name = a.name
UNION ALL
SELECT name, true, written FROM extended
