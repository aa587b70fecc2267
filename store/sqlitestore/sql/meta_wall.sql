-- ?1 wall clock minus the file's clock. No result.
UPDATE meta SET wall = ?1
