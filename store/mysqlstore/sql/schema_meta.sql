-- version is that of both tables; no token of a forgotten record is above floor.
CREATE TABLE IF NOT EXISTS {meta} (
  one     TINYINT NOT NULL PRIMARY KEY,
  version INT     NOT NULL,
  floor   BIGINT  NOT NULL
) ENGINE = InnoDB
