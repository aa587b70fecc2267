-- No parameters. One row: whether there is a row as only a table has that is shared with ShedLock: of a lock of its, or one that says of which record it is.
SELECT EXISTS (SELECT 1 FROM {records} AS r WHERE r.record IS NOT NULL OR r.holder = '')
