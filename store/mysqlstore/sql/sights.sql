-- A row for each of the names that has one: name, token, whether it has been released, whether it is free.
SELECT r.name, r.token, r.released = 1, COALESCE(r.lock_until <= {now}, 1) FROM {from} WHERE {on}
LIMIT {all}
