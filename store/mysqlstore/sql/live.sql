-- A fragment. Whether the lease of the row r is live, and is the one that is meant.
r.holder = {c.holder} AND r.locked_by = r.holder AND r.token = {c.token} AND r.released = 0 AND r.lock_until > {now} AND {sound}
