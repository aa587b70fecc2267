-- $1 the table, $2 the second table. At most one row, if both are there: the rights of this role, and what the tables are called.
SELECT has_table_privilege(t.oid, 'SELECT'), has_table_privilege(t.oid, 'INSERT'), has_table_privilege(t.oid, 'UPDATE'),
  has_table_privilege(t.oid, 'DELETE'), has_table_privilege(m.oid, 'SELECT'), has_table_privilege(m.oid, 'UPDATE'),
  current_user::text
FROM (SELECT to_regclass($1::text)::oid AS oid) AS t, (SELECT to_regclass($2::text)::oid AS oid) AS m
WHERE t.oid IS NOT NULL AND m.oid IS NOT NULL
