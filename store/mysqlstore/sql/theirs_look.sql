-- A fragment, for a table shared with ShedLock. Or whether the row r has ShedLock's lock that is meant as its last one.
OR r.locked_by <> r.holder AND r.locked_by = {c.holder} AND {r.token} = {c.token}
