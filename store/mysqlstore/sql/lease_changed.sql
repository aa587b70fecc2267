-- A fragment, for the end of extend and release in a routine: the leases that it has changed, as in lease_look.
RETURNING call_id - {call}, TRUE, TRUE, released, mark, FALSE, IF(locked_by = holder, holder, NULL), token, TIMESTAMPDIFF(MICROSECOND, {now}, lock_until)
