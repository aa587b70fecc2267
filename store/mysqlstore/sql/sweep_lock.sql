-- {names} a list of names. A row each: name, token of a record that may be forgotten, locked until the transaction ends.
SELECT r.name, {r.token} FROM {records} AS r FORCE INDEX (PRIMARY) WHERE r.name IN ({names}) AND {forgettable} FOR UPDATE SKIP LOCKED
