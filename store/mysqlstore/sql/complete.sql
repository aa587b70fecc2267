-- {name}, {mark}, {state} or NULL, {call} the number, of a completion whose row is locked and whose lease is live. No result.
UPDATE {records} SET mark = GREATEST(mark, {mark}), state = COALESCE({state}, state), call_id = {call} WHERE name = {name}
