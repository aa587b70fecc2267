-- {names} a list of names, all of them locked. No result.
DELETE FROM {records} WHERE name IN ({names})
