-- No parameters. One row: the oid of the table, the backend's process, whether the server is a standby, the store's secret.
SELECT '{{table}}'::regclass::oid::bigint, pg_backend_pid(), pg_is_in_recovery(), m.secret FROM {{meta}} AS m WHERE m.one = 1
