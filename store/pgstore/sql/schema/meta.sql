-- One row: the version of the schema, and the secret with which notifications are sealed. Who may read it can forge them: keep it from roles
-- that must not take leases.
CREATE TABLE {{meta}} (
  one     integer NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  version integer NOT NULL,
  secret  bytea NOT NULL DEFAULT {{random}}
);
INSERT INTO {{meta}} (version) VALUES ({{version}});
