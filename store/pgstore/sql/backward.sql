-- No parameters. Whether more locks of ShedLock end before they begin than begin before they end.
SELECT count(*) FILTER (WHERE s.lock_until < s.locked_at) > count(*) FILTER (WHERE s.lock_until > s.locked_at) FROM {{table}} AS s
