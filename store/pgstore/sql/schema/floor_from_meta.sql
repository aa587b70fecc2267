-- Tables of versions below 3 have the floor in another place.
INSERT INTO {{floor}} (floor) SELECT m.floor FROM {{meta}} AS m ON CONFLICT (floor) DO NOTHING;
ALTER TABLE {{meta}} DROP COLUMN floor;
