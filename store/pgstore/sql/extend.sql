-- Keeps leases live. No name may be there twice. As for the plan see acquire.sql.
-- $1 names of rows, $2 holders, $3 tokens, $4 TTLs in µs, $5 marks, $6 whether to replace the state, $7 states.
-- A row for each lease, and another for each that was extended: name, whether it was extended, whether it looked live when the statement began. One that
-- looked live and was not extended has ended, or has been changed or locked by somebody, at this moment. One that was extended and does not look live is not as
-- this statement has written it: a trigger that somebody has put on the table has changed it. The rows are older than what the clock says: the
-- end of a lease that has passed since the statement began may have been put off meanwhile.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now
), asked AS MATERIALIZED (
  SELECT a.*, c.now
  FROM clock AS c, unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::bigint[]),
    (SELECT $6::boolean[]), (SELECT $7::bytea[])) AS a (name, holder, token, ttl, mark, replace, state)
  LIMIT (SELECT cardinality($1::text[]))
), live AS MATERIALIZED (
  SELECT a.*
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released AND s.lock_until > a.now
  FOR NO KEY UPDATE OF s SKIP LOCKED
), extended AS (
  UPDATE {{table}} AS s SET
    lock_until = greatest(s.lock_until, l.now + l.ttl * interval '1 microsecond'),
    mark = greatest(s.mark, l.mark), state = CASE WHEN l.replace THEN l.state ELSE s.state END
  FROM live AS l WHERE s.name = l.name
  RETURNING s.name, s.holder = l.holder AND s.locked_by = l.holder AND s.token = l.token AND NOT s.released AND s.mark >= l.mark
    AND (NOT l.replace OR s.state IS NOT DISTINCT FROM l.state) AND s.lock_until >= l.now + l.ttl * interval '1 microsecond' AS written
)
SELECT a.name, false,
  coalesce(s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released AND s.lock_until > statement_timestamp() AT TIME ZONE 'UTC', false)
FROM asked AS a LEFT JOIN {{table}} AS s ON s.name = a.name
UNION ALL
SELECT name, true, written FROM extended
