-- ?1 name, ?2 now. At most one row: token of the record that was forgotten.
DELETE FROM records
WHERE name = ?1 AND until <= ?2 AND (retain <= ?2 OR (retain IS NULL AND mark = 0 AND length(state) = 0))
RETURNING token
