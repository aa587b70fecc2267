-- ?1 a token, ?2 now. No result: the next token of each record that nobody holds is above it.
UPDATE records SET token = ?1 WHERE token BETWEEN 1 AND ?1 - 1 AND (released = 1 OR until <= ?2)
