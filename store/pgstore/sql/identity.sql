-- No parameters. One row: what tells a running server from every other: when it was started, in µs, and the identifier of its data.
SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text || ' of ' || (SELECT system_identifier FROM pg_control_system())
