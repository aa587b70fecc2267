-- No parameters, no result: what a new file is made of, in one transaction.
-- Times are nanoseconds of the clock that meta.clock names; retain is NULL until a release has said how long.
CREATE TABLE meta (
  one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  clock TEXT    NOT NULL, -- 'boottime' or 'wall'
  boot  TEXT    NOT NULL, -- the boot whose clock the times are of; '' for the wall clock
  wall  INTEGER NOT NULL, -- wall clock minus that clock, when it was last looked at
  floor INTEGER NOT NULL  -- no token of a forgotten record, or of a file that lay here before, is above it
) STRICT;
CREATE TABLE records (
  name     TEXT    NOT NULL PRIMARY KEY,
  holder   TEXT    NOT NULL, -- of the last grant, also after its release
  released INTEGER NOT NULL, -- 1 when the holder has released it
  token    INTEGER NOT NULL,
  mark     INTEGER NOT NULL,
  state    BLOB    NOT NULL,
  since    INTEGER NOT NULL, -- of the last grant
  until    INTEGER NOT NULL, -- end of the lease or linger
  retain   INTEGER           -- how long mark and state must be remembered; 9223372036854775807 forever
) STRICT, WITHOUT ROWID;
