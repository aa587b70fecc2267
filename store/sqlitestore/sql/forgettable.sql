-- ?1 now, ?2 how many. A row each: name of a record that may be forgotten.
SELECT name FROM records
WHERE until <= ?1 AND (retain <= ?1 OR (retain IS NULL AND mark = 0 AND length(state) = 0)) LIMIT ?2
