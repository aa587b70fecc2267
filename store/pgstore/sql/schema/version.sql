-- A table of an older version is now of this one.
UPDATE {{meta}} SET version = {{version}};
