-- ?1 the greatest token that has been forgotten, or that a file had which lay here before. No result.
UPDATE meta SET floor = max(floor, ?1)
