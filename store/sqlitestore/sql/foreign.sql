-- No parameters. A row each: what somebody has added that changes or refuses what is written to the tables.
SELECT 'the trigger ' || quote(name) FROM sqlite_schema WHERE type = 'trigger'
UNION ALL
SELECT 'the unique index ' || quote(name) FROM pragma_index_list('records') WHERE "unique" AND origin <> 'pk'
