-- {floor} the greatest token that has been forgotten. No result.
UPDATE {meta} SET floor = GREATEST(floor, {floor}) WHERE one = 1
