-- Completes the work of a lease, in the caller's transaction. Waits for the one that has locked the row.
-- $1 name of the row, $2 holder, $3 token, $4 mark, $5 whether to replace the state, $6 state.
-- At most one row: whether the lease was live, NULL if the row is not as it was written (see extend.sql), and of the record as it was before: holder,
-- locked_by, released, token, mark, µs left, µs since the grant, state.
WITH was AS MATERIALIZED (
  SELECT s.name, s.holder, s.locked_by, s.released, s.token, s.mark, s.lock_until, s.locked_at, s.state
  FROM {{table}} AS s WHERE s.name = $1::text
  FOR NO KEY UPDATE OF s
), seen AS MATERIALIZED (
  SELECT w.*, c.now, w.holder = $2::text AND w.locked_by = $2::text AND w.token = $3::bigint AND NOT w.released AND w.lock_until > c.now AS live
  FROM was AS w, LATERAL (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now, w.name) AS c
), done AS (
  UPDATE {{table}} AS s SET
    mark = greatest(s.mark, $4::bigint), state = CASE WHEN $5::boolean THEN $6::bytea ELSE s.state END
  FROM seen AS w
  WHERE s.name = w.name AND w.live AND ($4::bigint = 0 OR w.mark < $4::bigint) AND ($4::bigint > 0 OR $5::boolean)
  RETURNING s.mark >= $4::bigint AND (NOT $5::boolean OR s.state IS NOT DISTINCT FROM $6::bytea) AS written
)
SELECT CASE WHEN w.live AND ($4::bigint = 0 OR w.mark < $4::bigint) AND ($4::bigint > 0 OR $5::boolean) AND NOT EXISTS (SELECT 1 FROM done WHERE written) THEN NULL ELSE w.live END,
  w.holder, w.locked_by, w.released, w.token, w.mark,
  (extract(epoch FROM least(greatest(w.lock_until, {{first}}), {{last}}) - w.now) * 1000000)::bigint, (extract(epoch FROM w.now - least(greatest(w.locked_at, {{first}}), {{last}})) * 1000000)::bigint, w.state
FROM seen AS w
