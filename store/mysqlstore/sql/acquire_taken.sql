-- A fragment, for the end of acquire_take in a routine: the rows that it has taken, as in acquire_look.
RETURNING call_id - {call}, IF(token >= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at), 1, 3), holder, locked_by, released, token, mark, TIMESTAMPDIFF(MICROSECOND, {now}, lock_until),
  TIMESTAMPDIFF(MICROSECOND, locked_at, {now}), LENGTH(state), TIMESTAMPDIFF(MICROSECOND, taken_from, locked_at), state
