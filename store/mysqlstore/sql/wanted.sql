-- A fragment, a table: the claims whose names look free, without a lock; known is NULL for a name that has no row.
-- {unless}, {order} and {limit} make of many claims one choice.
(SELECT c.*, p.name AS known FROM {batch} AS c LEFT JOIN {records} AS p ON p.name = c.row_name
WHERE {c.mark} >= 0 AND (p.name IS NULL OR (p.lock_until <= {now} AND ({c.mark} = 0 OR {p.mark} < {c.mark}) AND p.token < {max} AND {sound_p}))
{unless} ORDER BY {order} LIMIT {limit})
