-- A condition of the sweep's statements: record s, whose last grant was released, may be forgotten at the instant c.now. $2 says whether
-- the table is shared with ShedLock: rows that it knows of are never deleted.
s.released AND s.lock_until <= c.now AND (s.retain_until IS NULL OR s.retain_until <= c.now)
AND s.token <= {{forgettable_token}}
AND (NOT $2::boolean OR s.record = s.name AND s.locked_by = s.holder)
