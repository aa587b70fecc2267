-- Ends leases. No name may be there twice.
-- $1 names of rows, $2 holders, $3 tokens, $4 lingers in µs, $5 retains in µs or NULL for ever, $6 marks, $7 whether to replace the
-- state, $8 states.
-- A row for each lease: number from 1, whether it was released now, whether it looked live, whether it had been released before and
-- that is well, the record's mark now.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now
), asked AS MATERIALIZED (
  SELECT a.*, c.now
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bytea[])
    WITH ORDINALITY AS a (name, holder, token, linger, retain, mark, replace, state, number), clock AS c
), live AS MATERIALIZED (
  SELECT a.*
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released AND s.lock_until > a.now
  FOR NO KEY UPDATE OF s SKIP LOCKED
), ended AS (
  UPDATE {{table}} AS s SET
    lock_until = l.now + l.linger * interval '1 microsecond', released = true,
    retain_until = coalesce(l.now + greatest(l.retain, l.linger) * interval '1 microsecond', {{forever}}),
    mark = greatest(s.mark, l.mark), state = CASE WHEN l.replace THEN l.state ELSE s.state END
  FROM live AS l WHERE s.name = l.name
  RETURNING l.number, s.name, s.mark
)
SELECT a.number, e.number IS NOT NULL,
  coalesce(s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released AND s.lock_until > a.now, false),
  coalesce(s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND s.released AND s.mark >= a.mark, false),
  coalesce(e.mark, s.mark, 0)
 {{notify}}
FROM asked AS a
LEFT JOIN {{table}} AS s ON s.name = a.name
LEFT JOIN ended AS e ON e.number = a.number
