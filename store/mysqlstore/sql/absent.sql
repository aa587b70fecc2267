-- A fragment, a table: the claims whose names have no row.
(SELECT c.* FROM {batch} AS c LEFT JOIN {records} AS p ON p.name = c.row_name WHERE {c.mark} >= 0 AND p.name IS NULL ORDER BY c.row_name LIMIT {all})
