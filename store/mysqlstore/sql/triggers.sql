-- {schema}, {table}, {table_meta}. A row for each trigger of the tables that may be seen: its name, when it runs and on what.
SELECT t.trigger_name, CONCAT(t.action_timing, ' ', t.event_manipulation, ' on ', t.event_object_table) FROM information_schema.triggers AS t
WHERE t.event_object_schema = {schema} AND t.event_object_table IN ({table}, {table_meta})
