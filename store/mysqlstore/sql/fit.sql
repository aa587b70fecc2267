-- {schema}, {table}, {table_meta}. One row: the version of the tables or NULL, those of the tables that are not kept by InnoDB or NULL.
SELECT (SELECT m.version FROM {meta} AS m WHERE m.one = 1),
  (SELECT GROUP_CONCAT(t.table_name, ' by ', t.engine) FROM information_schema.tables AS t
  WHERE t.table_schema = {schema} AND t.table_name IN ({table}, {table_meta}) AND t.engine <> 'InnoDB')
