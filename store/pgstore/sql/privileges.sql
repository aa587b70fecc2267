-- $1 names of tables, $2 a right on each. A row for each whose table is there: the table, the right, whether this role has it, the role.
SELECT p.name, p.privilege, has_table_privilege(to_regclass(p.name)::oid, p.privilege), current_user::text
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS p (name, privilege, n)
WHERE to_regclass(p.name) IS NOT NULL ORDER BY p.n
