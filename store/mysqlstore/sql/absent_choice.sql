-- A fragment, a table: the wanted claim, if its name has no row.
(SELECT c.* FROM {wanted} AS c WHERE c.known IS NULL LIMIT 1)
