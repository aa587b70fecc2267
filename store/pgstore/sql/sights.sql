-- $1 names of rows. A row each that is there: name, token, and whether nobody has it: what a release changes.
SELECT s.name, s.token, s.released AND s.locked_by = s.holder OR s.lock_until <= clock_timestamp() AT TIME ZONE 'UTC', s.locked_by
FROM {{table}} AS s WHERE s.name = ANY ($1::text[])
