-- Forgets records whose tokens are not above the least floor.
-- $1 how many at most, $2 whether the table is shared with ShedLock. One row: how many were forgotten.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now, (SELECT min(floor) FROM {{floor}}) AS floor
), found AS MATERIALIZED (
  SELECT s.name FROM {{table}} AS s, clock AS c
  WHERE s.token <= c.floor AND {{forgettable}}
  LIMIT $1::bigint
  FOR UPDATE OF s SKIP LOCKED
), gone AS (
  DELETE FROM {{table}} AS s USING found AS f WHERE s.name = f.name RETURNING 1
)
SELECT count(*) FROM gone
