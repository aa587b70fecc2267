-- ?1 the first name, ?2 a text above the last, ?3 how many. A row each, in byte order of name:
-- name, holder, released, token, mark, state, since, until.
SELECT name, holder, released, token, mark, state, since, until FROM records
WHERE name >= ?1 AND name < ?2 ORDER BY name LIMIT ?3
