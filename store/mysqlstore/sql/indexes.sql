-- {schema}, {table}. A row for each index of the table but the primary key: its name, its kind.
SELECT DISTINCT s.index_name, s.index_type FROM information_schema.statistics AS s WHERE s.table_schema = {schema} AND s.table_name = {table} AND s.index_name <> 'PRIMARY'
