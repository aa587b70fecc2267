-- No parameters. One row: the latest until and the greatest token of all records.
SELECT coalesce(max(until), 0), coalesce(max(token), 0) FROM records
