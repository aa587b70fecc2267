-- ?1 the greatest token that has been forgotten. No result.
UPDATE meta SET floor = max(floor, ?1)
