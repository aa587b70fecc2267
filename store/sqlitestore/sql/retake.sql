-- ?1 name, ?2 holder, ?3 token, ?4 now, ?5 until, and of the free record that was read: ?6 token, ?7 released, ?8 until.
-- Changes one row if the record is still as it was and the token is above the floor, else none; none either while the file has a trigger (see fit.go).
UPDATE records SET holder = ?2, released = 0, token = ?3, since = ?4, until = ?5
WHERE name = ?1 AND token = ?6 AND released = ?7 AND until = ?8 AND ?3 > (SELECT floor FROM meta)
  AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger')
