-- ?1 boot, ?2 wall. No result: the file's times are now of this boot's clock.
UPDATE meta SET boot = ?1, wall = ?2
