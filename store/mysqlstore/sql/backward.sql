-- No parameters. One row: whether more locks of ShedLock end before they begin than begin before they end.
SELECT COALESCE(SUM(r.lock_until < r.locked_at), 0) > COALESCE(SUM(r.lock_until > r.locked_at), 0) FROM {records} AS r
