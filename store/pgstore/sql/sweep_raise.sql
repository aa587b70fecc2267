-- Adds a floor that is not below the tokens of records that may be forgotten.
-- $1 how many records at most, $2 whether the table is shared with ShedLock. One row: how many records it is about.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now
), found AS MATERIALIZED (
  SELECT s.token FROM {{table}} AS s, clock AS c WHERE {{forgettable}} LIMIT $1::bigint
), raised AS (
  INSERT INTO {{floor}} (floor)
  SELECT max(f.token) FROM found AS f HAVING max(f.token) > (SELECT max(floor) FROM {{floor}})
  ON CONFLICT (floor) DO NOTHING
)
SELECT count(*) FROM found
