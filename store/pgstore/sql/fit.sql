-- $1: the table; $2: the trigger that it has if it is shared with ShedLock. One row: the version of the schema, whether there is such a trigger, whether the
-- table is soloist's own: there is none, and a row that is not in a shared table, or no row of a shared one. The trigger of those can have been dropped.
SELECT m.version, t.shared, NOT t.shared AND (EXISTS (SELECT 1 FROM {{table}} AS s WHERE s.record IS NULL AND s.locked_by = s.holder)
  OR NOT EXISTS (SELECT 1 FROM {{table}} AS s WHERE s.record IS NOT NULL OR s.locked_by <> s.holder))
FROM {{meta}} AS m, (SELECT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass($1::text) AND tgname = $2::text) AS shared) AS t
