-- ?1 name, ?2 now. At most one row: token of the record that was forgotten.
DELETE FROM records
WHERE name = ?1 AND until <= ?2 AND (retain IS NULL OR retain <= ?2) AND released = 1 AND token > 0 AND mark >= 0
RETURNING token
