-- {schema}, {table}, {table_meta}. One row: the version of the tables or NULL, those of the tables that are not kept by InnoDB or NULL, whether
-- the table is shared with ShedLock.
SELECT (SELECT m.version FROM {meta} AS m WHERE m.one = 1),
  (SELECT GROUP_CONCAT(t.table_name, ' by ', t.engine) FROM information_schema.tables AS t
  WHERE t.table_schema = {schema} AND t.table_name IN ({table}, {table_meta}) AND t.engine <> 'InnoDB'),
  EXISTS (SELECT 1 FROM information_schema.statistics AS s WHERE s.table_schema = {schema} AND s.table_name = {table} AND s.index_name = 'soloist_record')
