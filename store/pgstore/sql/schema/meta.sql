-- One row: the version of the schema, and the floor: no token of a forgotten record is above it.
CREATE TABLE {{meta}} (
  one     integer NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  version integer NOT NULL,
  floor   bigint NOT NULL DEFAULT 0
);
INSERT INTO {{meta}} (version) VALUES ({{version}});
