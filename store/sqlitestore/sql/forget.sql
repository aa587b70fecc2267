-- ?1 name, ?2 now, ?3 the greatest token that may be. At most one row: token of the record that was forgotten.
DELETE FROM records
WHERE name = ?1 AND until <= ?2 AND (retain IS NULL OR retain <= ?2) AND released = 1 AND token BETWEEN 1 AND ?3 AND mark >= 0
RETURNING token
