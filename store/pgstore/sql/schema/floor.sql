-- The floors: no token of a forgotten record is above the least of them. There is one, and another while a sweep raises it.
--
-- Tokens of a name grow although its record is forgotten, and time has no part in that. A claim that inserts a name locks the greatest
-- floor that it sees (FOR KEY SHARE, as the check of a foreign key does), until its commit, and gives a greater token. A sweep first adds
-- a greater floor; then it removes those below that nobody has locked; then it forgets records with tokens up to the least that it sees.
--
-- Say that a claim goes by floor f, and a sweep that went by a least floor m above f has forgotten the name before the claim inserts it.
-- The sweep did not see f. Either f had been removed: then the claim could not have locked it, and inserts nothing. Or f was added later:
-- then the claim, which sees f, sees m too, or if that was removed a greater one, and f is not the greatest that it sees.
--
-- Sweeps pass by a floor that is locked and wait for nobody. A claim waits at most for the commit of a sweep that removes its floor.
CREATE TABLE {{floor}} (floor bigint NOT NULL PRIMARY KEY);
INSERT INTO {{floor}} (floor) VALUES (0);
