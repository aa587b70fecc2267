-- One row: how many locks ShedLock has taken that have a token, which has the instant by the server's clock; how many of them have times that differ
-- from that by more than $1 µs, or have no microseconds, as those of a JVM's clock have; and by how many µs they differ at most, 0 without a lock.
SELECT count(*), count(*) FILTER (WHERE abs(f.off) > $1::bigint), count(*) FILTER (WHERE f.at % 1000 = 0), coalesce(max(abs(f.off)), 0)::bigint
FROM {{table}} AS s, LATERAL (SELECT (extract(epoch FROM least(greatest(s.locked_at, {{first}}), {{last}})) * 1000000)::bigint AS at OFFSET 0) AS a,
  LATERAL (SELECT a.at, a.at - s.token AS off) AS f
WHERE s.token > 0 AND s.locked_by <> s.holder
