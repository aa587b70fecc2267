-- Forgets places of those who have not come back. One row: how many.
WITH gone AS (
  DELETE FROM {{line}} WHERE until <= clock_timestamp() AT TIME ZONE 'UTC' RETURNING 1
)
SELECT count(*) FROM gone
