-- A fragment, for a choice: unless the holder has one of the names already.
AND NOT EXISTS (SELECT 1 FROM {batch} AS d JOIN {records} AS o ON o.name = d.row_name
WHERE o.holder = {c.holder} AND o.locked_by = o.holder AND o.released = 0 AND o.lock_until > {now})
