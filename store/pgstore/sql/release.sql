-- Ends leases. No name may be there twice. As for the plan see acquire.sql.
-- $1 names of rows, $2 holders, $3 tokens, $4 lingers in µs, $5 retains in µs or NULL forever, $6 marks, $7 whether to replace the
-- state, $8 states. A lock that ShedLock holds is released by its locked_by and token: by force, for a JVM that died. One that has ended counts as released.
-- A row for each lease, and another for each that was released now: name, whether it was released now, whether it may be live
-- (as in extend.sql), and for one released now whether it was written (as in extend.sql), whether it had been released before and that is well, the record's mark, and what is of no interest.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now
), asked AS MATERIALIZED (
  SELECT a.*, c.now
  FROM clock AS c, unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::bigint[]),
    (SELECT $6::bigint[]), (SELECT $7::boolean[]), (SELECT $8::bytea[])) AS a (name, holder, token, linger, retain, mark, replace, state)
  LIMIT (SELECT cardinality($1::text[]))
), locked AS MATERIALIZED (
  SELECT a.*, s.lock_until
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE ({{held}}) AND s.token = a.token
  FOR NO KEY UPDATE OF s SKIP LOCKED
), live AS MATERIALIZED (
  SELECT * FROM locked WHERE lock_until > now
), ended AS (
  UPDATE {{table}} AS s SET
    lock_until = l.now + l.linger * interval '1 microsecond', released = true,
    retain_until = greatest(l.now + l.linger * interval '1 microsecond', coalesce(l.now + l.retain * interval '1 microsecond', {{forever}})),
    mark = greatest(s.mark, l.mark), state = CASE WHEN l.replace THEN l.state ELSE s.state END
  FROM live AS l WHERE s.name = l.name
  RETURNING s.name, s.mark, s.token AS ended,
    s.released AND s.token = l.token AND s.lock_until >= l.now + l.linger * interval '1 microsecond' AND s.mark >= l.mark AND (NOT l.replace OR s.state IS NOT DISTINCT FROM l.state) AS written
)
SELECT a.name, false,
  coalesce(({{held}}) AND s.token = a.token AND a.name NOT IN (SELECT l.name FROM locked AS l WHERE l.lock_until <= l.now), false),
  coalesce(({{ended}}) AND s.token = a.token AND s.mark >= a.mark, false),
  coalesce(s.mark, 0), NULL::text
FROM asked AS a LEFT JOIN {{table}} AS s ON s.name = a.name
UNION ALL
SELECT e.name, true, e.written, false, e.mark, {{notify}} FROM ended AS e
