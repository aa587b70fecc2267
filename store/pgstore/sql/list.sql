-- $1 the text after which the names come, $2 the least name, $3 a text above the last or NULL, $4 how many.
-- A row each, in byte order of name: name, holder, locked_by, released, token, mark, µs left, µs since the grant, state.
SELECT s.name, s.holder, s.locked_by, s.released, s.token, s.mark,
  (extract(epoch FROM least(greatest(s.lock_until, {{first}}), {{last}}) - c.now) * 1000000)::bigint, (extract(epoch FROM c.now - least(greatest(s.locked_at, {{first}}), {{last}})) * 1000000)::bigint, s.state
FROM {{table}} AS s, (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now OFFSET 0) AS c
WHERE s.name > $1::text AND s.name >= $2::text AND ($3::text IS NULL OR s.name < $3::text)
ORDER BY s.name LIMIT $4::bigint
