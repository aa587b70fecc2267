-- $1: the table; $2: the trigger that it has if it is shared with ShedLock. One row: the version of the schema, whether there is such a trigger.
SELECT m.version, EXISTS (SELECT 1 FROM pg_trigger AS t WHERE t.tgrelid = to_regclass($1::text) AND t.tgname = $2::text) FROM {{meta}} AS m
