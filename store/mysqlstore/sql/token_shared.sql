-- A fragment, for a table shared with ShedLock: the token of the row r's last lock. One that ShedLock has taken has no token in the row, and
-- gets one by its instant, as those of soloist do.
IF(r.locked_by <> r.holder, GREATEST(r.token + (r.token < {max}), COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.locked_at), 0)), r.token)
