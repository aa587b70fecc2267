-- Removes the floors below the greatest that nobody goes by. No parameters. One row: how many.
WITH found AS MATERIALIZED (
  SELECT f.floor FROM {{floor}} AS f WHERE f.floor < (SELECT max(floor) FROM {{floor}}) FOR UPDATE OF f SKIP LOCKED
), gone AS (
  DELETE FROM {{floor}} AS f USING found AS d WHERE f.floor = d.floor RETURNING 1
)
SELECT count(*) FROM gone
