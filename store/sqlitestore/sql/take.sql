-- ?1 name, ?2 holder, ?3 token, ?4 now, ?5 until. No result. Mark, state and retain stay as they were left.
INSERT INTO records (name, holder, released, token, mark, state, since, until, retain)
VALUES (?1, ?2, 0, ?3, 0, x'', ?4, ?5, NULL)
ON CONFLICT (name) DO UPDATE SET holder = ?2, released = 0, token = ?3, since = ?4, until = ?5
