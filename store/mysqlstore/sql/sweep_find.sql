-- {count} how many. A row each: name of a record that may be forgotten.
SELECT r.name FROM {records} AS r WHERE {forgettable} LIMIT {count}
