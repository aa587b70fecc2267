-- The numbers in the batch of the leases that have certainly ended: the row of each could be locked, so no other transaction is about to extend or release it.
SELECT {c.i} FROM {from} WHERE {on} AND r.holder = {c.holder} AND r.locked_by = r.holder AND r.token = {c.token} AND r.released = 0 AND r.lock_until <= {now}
FOR UPDATE SKIP LOCKED
