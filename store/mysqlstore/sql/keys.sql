-- {schema}, {table}. A row for each column that alone is the primary key of the table or another unique key: its name, that of the key.
SELECT MIN(s.column_name), s.index_name FROM information_schema.statistics AS s
WHERE s.table_schema = {schema} AND s.table_name = {table} AND s.non_unique = 0 GROUP BY s.index_name HAVING COUNT(*) = 1
