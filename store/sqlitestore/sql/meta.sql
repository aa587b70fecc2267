-- No parameters. One row: clock, boot, wall, floor.
SELECT clock, boot, wall, floor FROM meta
