-- A fragment, a name or NULL: that of a single claim, if it has a row that looks free, without a lock.
(SELECT p.name FROM {records} AS p WHERE p.name = {c.row_name} AND p.lock_until <= {now} AND ({c.mark} = 0 OR {p.mark} < {c.mark}))
