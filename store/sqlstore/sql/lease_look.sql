-- {call} the number of this call. A row for each lease that is still the last grant of its name: its number in the batch, whether this
-- call has changed it, whether it is live, whether it has been released, mark.
SELECT {c.i}, r.call_id = {call}, r.released = 0 AND r.lock_until > {now}, r.released, r.mark
FROM {from} WHERE {on} AND r.holder = {c.holder} AND r.locked_by = r.holder AND r.token = {c.token}
