-- Tables of versions below 3 have no secret.
ALTER TABLE {{meta}} ADD COLUMN IF NOT EXISTS secret bytea NOT NULL DEFAULT {{random}};
