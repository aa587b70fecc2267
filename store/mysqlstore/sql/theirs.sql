-- A fragment, for a table shared with ShedLock. Or whether the row r is ShedLock's lock that is meant, and is live.
OR r.locked_by <> r.holder AND r.locked_by = {c.holder} AND {r.token} = {c.token} AND r.lock_until > {now} AND {sound}
