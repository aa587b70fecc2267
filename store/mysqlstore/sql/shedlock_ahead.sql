-- No parameters. One row: how many locks ShedLock has taken last, how many of them more than a second after now, and how many µs after now the
-- latest was taken.
SELECT COUNT(*), COALESCE(SUM(TIMESTAMPDIFF(MICROSECOND, {now}, r.locked_at) > 1000000), 0),
  COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, {now}, r.locked_at)), 0)
FROM {records} AS r WHERE r.locked_by <> r.holder
