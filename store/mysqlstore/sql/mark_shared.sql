-- A fragment, for a table shared with ShedLock: the mark of the row r. A lock that ShedLock has taken raises it to its instant in Unix
-- milliseconds, and {early} more: the scheduled times of a job up to then have been run by ShedLock.
IF(r.locked_by <> r.holder,
  GREATEST(r.mark, COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', LEAST(r.locked_at, {now})) DIV 1000 + {early}, 0)), r.mark)
