-- {version} of the tables. No result.
INSERT INTO {meta} (one, version, floor) VALUES (1, {version}, 0) ON DUPLICATE KEY UPDATE version = GREATEST(version, {version})
