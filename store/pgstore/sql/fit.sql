-- $1: the table; $2: the trigger that it has if it is shared with ShedLock. One row: the version of the schema, whether there is such a trigger, whether there is
-- none and a row of a record that soloist has granted in a table of its own.
SELECT m.version, EXISTS (SELECT 1 FROM pg_trigger AS t WHERE t.tgrelid = to_regclass($1::text) AND t.tgname = $2::text),
  NOT EXISTS (SELECT 1 FROM pg_trigger AS t WHERE t.tgrelid = to_regclass($1::text) AND t.tgname = $2::text)
  AND EXISTS (SELECT 1 FROM {{table}} AS s WHERE s.record IS NULL AND s.holder <> '')
FROM {{meta}} AS m
