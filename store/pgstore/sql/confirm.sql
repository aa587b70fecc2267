-- A commit of something that changes no row. It is waited for as any is, and so for all that was committed before.
SELECT pg_logical_emit_message(true, 'soloist', '')
