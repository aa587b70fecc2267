-- For a table of ShedLock's, whatever its character set. No result.
ALTER TABLE {records}
  MODIFY name      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  MODIFY locked_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  ENGINE = InnoDB
