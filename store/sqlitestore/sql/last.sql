-- ?1 the greatest token that counts, ?2 the latest until: one above harms its own name only. One row: the latest until and the greatest token of all records.
SELECT coalesce(max(CASE WHEN until <= ?2 THEN until END), 0), coalesce(max(CASE WHEN token <= ?1 THEN token END), 0) FROM records
