-- A fragment, for a table shared with ShedLock. Whether ShedLock cannot know of the row r: it remembers which rows there are, and only
-- updates those. Names with a slash that soloist keeps as they are, are its own.
AND r.record = r.name AND LOCATE('/', r.name) > 0
