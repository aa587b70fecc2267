-- {schema}, {table}. A row for each column of the table: its name, its type.
SELECT LOWER(c.column_name), LOWER(c.column_type) FROM information_schema.columns AS c WHERE c.table_schema = {schema} AND c.table_name = {table}
