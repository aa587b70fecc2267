-- {schema}, {table}, {table_meta}. A row for each of the two tables that is there: its name, its engine.
SELECT t.table_name, t.engine FROM information_schema.tables AS t WHERE t.table_schema = {schema} AND t.table_name IN ({table}, {table_meta})
