-- ?1 the greatest token that counts. One row: the latest until and the greatest token of all records.
SELECT coalesce(max(until), 0), coalesce(max(CASE WHEN token <= ?1 THEN token END), 0) FROM records
