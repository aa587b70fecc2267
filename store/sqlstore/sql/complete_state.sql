-- {name}, {state} of a completion whose row is locked and whose lease is live. No result.
UPDATE {records} SET state = {state} WHERE name = {name}
