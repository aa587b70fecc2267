-- Makes records of names that have no row, as a grant and a release leave them. No name may be there twice. As for the order of the names and the plan
-- see acquire.sql; where a sweep has just removed the floor, no record is made.
-- A statement that reaches the server, or runs, after the instant $5 makes none: a record of that name may have been made and forgotten meanwhile. The clock is
-- read when the floor is locked, and what was made after that is not forgotten before this statement ends: see schema/floor.sql.
-- $1 names, $2 marks, $3 states, $4 retains in µs or NULL forever, $5 µs since 1970. A row for each record that was made: the name.
WITH floor AS MATERIALIZED (
  SELECT f.floor FROM {{floor}} AS f WHERE f.floor = (SELECT max(floor) FROM {{floor}}) FOR KEY SHARE
), clock AS MATERIALIZED (
  SELECT f.floor, clock_timestamp() AT TIME ZONE 'UTC' AS now FROM floor AS f
), asked AS MATERIALIZED (
  SELECT a.*, c.now, c.floor
  FROM clock AS c, unnest((SELECT $1::text[]), (SELECT $2::bigint[]), (SELECT $3::bytea[]), (SELECT $4::bigint[])) AS a (name, mark, state, retain)
  WHERE c.floor < 9223372036854775807 AND extract(epoch FROM c.now) * 1000000 < $5::bigint
  LIMIT (SELECT cardinality($1::text[]))
)
INSERT INTO {{table}} (name, lock_until, locked_at, locked_by, released, token, mark, state, retain_until)
SELECT a.name, a.now, a.now, '', true, greatest(a.floor + 1, (extract(epoch FROM a.now) * 1000000)::bigint), a.mark, a.state,
  coalesce(a.now + a.retain * interval '1 microsecond', {{forever}})
FROM asked AS a
ORDER BY a.name
ON CONFLICT (name) DO NOTHING
RETURNING name
