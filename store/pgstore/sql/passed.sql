-- Forgets the requests of those who have not come back. One row: how many.
WITH gone AS (
  DELETE FROM {{line}} AS w
  USING (SELECT name, holder, asked FROM {{line}} WHERE until <= clock_timestamp() AT TIME ZONE 'UTC' FOR UPDATE SKIP LOCKED) AS d
  WHERE w.name = d.name AND w.holder = d.holder AND w.asked = d.asked
  RETURNING 1
)
SELECT count(*) FROM gone
