-- ?1 name, ?2 holder, ?3 token, ?4 now, ?5 until, ?6 mark, ?7 whether to replace the state, ?8 state, ?9 retain.
-- Changes one row if the lease is live, else none; none either if the record is corrupt (see corrupt.go), or while the file has a trigger (see fit.go).
UPDATE records
SET released = 1, until = ?5, mark = max(mark, ?6), state = CASE WHEN ?7 THEN coalesce(?8, x'') ELSE state END, retain = ?9
WHERE name = ?1 AND holder = ?2 AND token = ?3 AND released = 0 AND until > ?4 AND mark >= 0 AND length(state) <= 65536 AND until - ?4 <= 630720000000000000
  AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger')
