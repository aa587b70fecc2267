-- ?1 now, ?2 how many, ?3 the greatest token that may be. A row each: name of a record that may be forgotten.
SELECT name FROM records
WHERE until <= ?1 AND (retain IS NULL OR retain <= ?1) AND released = 1 AND token BETWEEN 1 AND ?3 AND mark >= 0 LIMIT ?2
