-- {name}, {holder}, {token}, {mark} > 0, {state} or NULL of a completion. Changes one row if the lease is live and the mark is below.
UPDATE {records} SET mark = {mark}, state = COALESCE({state}, state)
WHERE name = {name} AND holder = {holder} AND locked_by = holder AND token = {token} AND released = 0 AND lock_until > {now} AND mark < {mark}
