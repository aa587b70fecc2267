-- A fragment. Whether the record of the row r may be forgotten.
r.lock_until <= {now} AND (r.retain_until IS NULL OR r.retain_until <= {now})
AND (r.released = 1 OR r.locked_by <> r.holder) AND {sound} {unshared}
AND {r.token} <= {forget}
