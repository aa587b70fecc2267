-- Forgets records. A name that was granted less than a second ago waits for the next time: whoever claims it at this very moment may
-- have read the floor before it was raised.
-- $1 how many at most, $2 whether the table is shared with ShedLock: rows that it knows of are never deleted.
-- One row: how many were forgotten.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now
), found AS MATERIALIZED (
  SELECT s.name FROM {{table}} AS s, clock AS c
  WHERE s.lock_until <= c.now AND (s.retain_until IS NULL OR s.retain_until <= c.now)
    AND s.released AND s.locked_at <= c.now - interval '1 second'
    AND (NOT $2::boolean OR s.record = s.name AND s.locked_by = s.holder)
  LIMIT $1::bigint
  FOR UPDATE OF s SKIP LOCKED
), gone AS (
  DELETE FROM {{table}} AS s USING found AS f WHERE s.name = f.name RETURNING s.token
), raised AS (
  UPDATE {{meta}} SET floor = (SELECT max(token) FROM gone) WHERE floor < (SELECT max(token) FROM gone)
)
SELECT count(*) FROM gone
