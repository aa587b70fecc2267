-- All times are UTC by the server's clock. The first four columns are those of ShedLock; each other has a default, for its INSERT.
CREATE TABLE IF NOT EXISTS {records} (
  name         VARBINARY(255) NOT NULL PRIMARY KEY,    -- bytes: no two names are equal that differ in case, accents or spaces
  lock_until   DATETIME(6)    NOT NULL,                -- end of the lease or linger
  locked_at    DATETIME(6)    NOT NULL,                -- of the last grant
  locked_by    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- who has it; the holder, unless ShedLock took it
  holder       VARBINARY(255) NOT NULL DEFAULT '',     -- of the last grant by soloist, also after its release
  released     TINYINT        NOT NULL DEFAULT 0,      -- 1 when that holder has released it
  token        BIGINT         NOT NULL DEFAULT 0,
  mark         BIGINT         NOT NULL DEFAULT 0,
  state        MEDIUMBLOB     NULL,
  retain_until DATETIME(6)    NULL,                    -- how long mark and state must be remembered; NULL until a release has said so
  taken_from   DATETIME(6)    NULL,                    -- when the lease before was granted, if it was never released
  record       VARBINARY(255) NULL,                    -- in a table shared with ShedLock: the full name of the record
  call_id      BIGINT         NOT NULL DEFAULT 0       -- the request that last changed the row
) ENGINE = InnoDB
