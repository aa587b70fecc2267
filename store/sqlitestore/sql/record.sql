-- ?1 name, ?2 whether the state is wanted. At most one row: holder, released, token, mark, since, until, bytes of state,
-- state or NULL.
SELECT holder, released, token, mark, since, until, length(state), CASE WHEN ?2 THEN state END
FROM records WHERE name = ?1
