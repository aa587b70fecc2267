-- For a table shared with ShedLock, where names are not those of the records. No result.
CREATE INDEX soloist_record ON {records} (record, name)
