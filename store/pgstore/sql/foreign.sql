-- $1 names of tables, $2 name of the trigger that is ours. A row for each thing that changes what statements do with them: what it is, its
-- name, its table, whether it comes before the change or in its place.
SELECT 'trigger', t.tgname::text, t.tgrelid::regclass::text, t.tgtype::integer & 66 <> 0
FROM pg_trigger AS t WHERE t.tgrelid = ANY ($1::text[]::regclass[]) AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgname <> $2::text
UNION ALL
SELECT 'rule', r.rulename::text, r.ev_class::regclass::text, true FROM pg_rewrite AS r WHERE r.ev_class = ANY ($1::text[]::regclass[])
UNION ALL
SELECT 'row-level security', 'row-level security', c.oid::regclass::text, true
FROM pg_class AS c WHERE c.oid = ANY ($1::text[]::regclass[]) AND c.relrowsecurity
