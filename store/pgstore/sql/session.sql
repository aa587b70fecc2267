-- No parameters. One row: µs of the server's clock, backend's process, time zone, isolation, encoding of the database, session's role.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_backend_pid(), current_setting('TimeZone'),
  current_setting('default_transaction_isolation'), current_setting('server_encoding'), session_user::text
