-- As list.sql, for a table shared with ShedLock, where a record may have another name than its row.
SELECT r.name, s.holder, s.locked_by, s.released, s.token, s.mark,
  (extract(epoch FROM least(greatest(s.lock_until, {{first}}), {{last}}) - c.now) * 1000000)::bigint, (extract(epoch FROM c.now - least(greatest(s.locked_at, {{first}}), {{last}})) * 1000000)::bigint, s.state
FROM {{table}} AS s, LATERAL (SELECT coalesce(s.record, 'lock/' || s.name){{collate}} AS name) AS r,
  (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now OFFSET 0) AS c
WHERE r.name > $1::text AND r.name >= $2::text AND ($3::text IS NULL OR r.name < $3::text)
ORDER BY r.name LIMIT $4::bigint
