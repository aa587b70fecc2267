-- {name}, {mark}, {state} or NULL of a completion whose row is locked and whose lease is live. No result.
UPDATE {records} SET mark = GREATEST(mark, {mark}), state = COALESCE({state}, state) WHERE name = {name}
