-- ?1 clock, ?2 boot, ?3 wall, ?4 floor. No result.
INSERT INTO meta (one, clock, boot, wall, floor) VALUES (1, ?1, ?2, ?3, ?4)
