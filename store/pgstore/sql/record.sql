-- An expression of acquire.sql and choose.sql: the record's name of a row s that is taken by a as record a.record. A row that others
-- know of keeps a name of theirs.
CASE
  WHEN a.record IS NULL THEN s.record
  WHEN a.record <> s.name THEN a.record
  WHEN s.record = s.name AND s.locked_by = s.holder THEN s.record
  ELSE coalesce(nullif(s.record, s.name), 'lock/' || s.name)
END
