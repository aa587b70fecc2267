-- For a table of ShedLock's. Its times must be in the time zone of the session. No result.
ALTER TABLE {records}
  MODIFY name       VARBINARY(255) NOT NULL,
  MODIFY lock_until DATETIME(6)    NOT NULL,
  MODIFY locked_at  DATETIME(6)    NOT NULL,
  ADD COLUMN holder       VARBINARY(255) NOT NULL DEFAULT '',
  ADD COLUMN released     TINYINT        NOT NULL DEFAULT 0,
  ADD COLUMN token        BIGINT         NOT NULL DEFAULT 0,
  ADD COLUMN mark         BIGINT         NOT NULL DEFAULT 0,
  ADD COLUMN state        MEDIUMBLOB     NULL,
  ADD COLUMN retain_until DATETIME(6)    NULL,
  ADD COLUMN taken_from   DATETIME(6)    NULL,
  ADD COLUMN record       VARBINARY(255) NULL,
  ADD COLUMN call_id      BIGINT         NOT NULL DEFAULT 0
