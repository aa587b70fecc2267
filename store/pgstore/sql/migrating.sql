-- $1, $2: of which the lock is a hash. Who holds the lock of migrations: pid, role, application. The last two are empty where this role may not see them.
SELECT l.pid, coalesce(a.usename, ''), coalesce(a.application_name, '') FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.objsubid = 1
  AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended($1::text, $2::bigint)
LIMIT 1
