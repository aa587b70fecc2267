-- One row: the version of the schema.
CREATE TABLE {{meta}} (
  one     integer NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  version integer NOT NULL
);
INSERT INTO {{meta}} (version) VALUES ({{version}});
