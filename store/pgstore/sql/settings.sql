-- No parameters. One row: version, is a standby, read-only, fsync, full_page_writes, synchronous_commit, synchronous_standby_names,
-- standbys that are connected, those of them that are synchronous, whether we may know that, physical replication slots.
SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
  current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
  current_setting('synchronous_standby_names'),
  (SELECT count(*) FROM pg_stat_replication),
  (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
  coalesce((SELECT bool_and(state IS NOT NULL) FROM pg_stat_replication), true),
  (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical')
