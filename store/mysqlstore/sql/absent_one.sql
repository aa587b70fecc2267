-- A fragment: whether the name of a single claim has no row.
{c.mark} >= 0 AND NOT EXISTS (SELECT 1 FROM {records} AS p WHERE p.name = {c.row_name})
