-- No parameters. A row for each setting of the session that ends what takes long, and is not 0: name, ms, what is written.
SELECT s.name, s.setting::bigint, current_setting(s.name) FROM pg_settings AS s
WHERE s.name IN ('statement_timeout', 'transaction_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout') AND s.setting <> '0'
ORDER BY s.name
