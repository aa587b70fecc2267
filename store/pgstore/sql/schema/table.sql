-- One row for each name. The first four columns are those of ShedLock, and the others have defaults, so that its statements work.
-- All times are UTC, by the server's clock.
CREATE TABLE {{table}} (
  name         text{{collate}} NOT NULL PRIMARY KEY,
  lock_until   timestamp(6) NOT NULL,           -- end of the lease or linger
  locked_at    timestamp(6) NOT NULL,           -- when the last lease was granted
  locked_by    text NOT NULL,                   -- who has or had it; differs from holder when that was not soloist
  holder       text NOT NULL DEFAULT '',        -- of the last grant by soloist, also after its release
  released     boolean NOT NULL DEFAULT false,  -- whether the holder has released it
  token        bigint NOT NULL DEFAULT 0,       -- the fencing token of the last grant
  mark         bigint NOT NULL DEFAULT 0,       -- only grows
  state        bytea,                           -- at most 64 KiB
  retain_until timestamp(6),                    -- how long mark and state must be remembered; NULL: no release has said
  record       text                             -- the record's name in a table shared with ShedLock, where it is not the row's
) WITH (fillfactor = 70);
