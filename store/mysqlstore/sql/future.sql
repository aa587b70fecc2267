-- No parameters. One row: how many µs after now the latest grant by soloist was made, NULL without a grant.
SELECT MAX(TIMESTAMPDIFF(MICROSECOND, {now}, r.locked_at)) FROM {records} AS r WHERE r.locked_by = r.holder
