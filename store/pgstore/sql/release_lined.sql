-- Ends leases as release.sql does, and hands each name, unless it is to linger, over to the first of its line whose process lives: it is
-- granted in the same step, and told by a notification.
--
-- A caller that waits in the queue after this statement's snapshot was taken is not seen. They listened before they asked, so they hold the lock
-- of the name's group, and are told that it is free. A place that is locked is being left: nothing else locks one.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now
), asked AS MATERIALIZED (
  SELECT a.*, c.now
  FROM clock AS c, unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::bigint[]),
    (SELECT $6::bigint[]), (SELECT $7::boolean[]), (SELECT $8::bytea[])) AS a (name, holder, token, linger, retain, mark, replace, state)
  LIMIT (SELECT cardinality($1::text[]))
), locked AS MATERIALIZED (
  SELECT a.*, s.lock_until
  FROM asked AS a JOIN {{table}} AS s ON s.name = a.name
  WHERE s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released
  FOR NO KEY UPDATE OF s SKIP LOCKED
), live AS MATERIALIZED (
  SELECT * FROM locked WHERE lock_until > now
), heard AS MATERIALIZED (
  SELECT l.*, NOT pg_try_advisory_xact_lock({{group}} + get_byte(sha256({{secret}} || convert_to(l.name, 'UTF8')), 0)) AS watched
  FROM live AS l
), next AS MATERIALIZED (
  SELECT h.name, f.*
  FROM heard AS h CROSS JOIN LATERAL (
    SELECT w.holder, w.ttl, w.inbox, w.asked
    FROM {{line}} AS w
    WHERE w.name = h.name AND w.until > h.now AND NOT pg_try_advisory_xact_lock_shared(w.inbox)
    ORDER BY w.since, w.holder, w.asked DESC LIMIT 1
    FOR UPDATE OF w SKIP LOCKED
  ) AS f
  WHERE h.watched AND h.linger = 0 AND h.token < 9223372036854775807
), gone AS (
  DELETE FROM {{line}} AS w USING next AS n WHERE w.name = n.name AND w.holder = n.holder
), ended AS (
  UPDATE {{table}} AS s SET
    lock_until = h.now + coalesce(n.ttl, h.linger) * interval '1 microsecond', released = n.holder IS NULL,
    retain_until = greatest(h.now + h.linger * interval '1 microsecond', coalesce(h.now + h.retain * interval '1 microsecond', {{forever}})),
    mark = greatest(s.mark, h.mark), state = CASE WHEN h.replace THEN h.state ELSE s.state END,
    locked_at = CASE WHEN n.holder IS NULL THEN s.locked_at ELSE h.now END,
    locked_by = coalesce(n.holder, s.locked_by), holder = coalesce(n.holder, s.holder),
    token = CASE WHEN n.holder IS NULL THEN s.token ELSE greatest(s.token + 1, (extract(epoch FROM h.now) * 1000000)::bigint) END
  FROM heard AS h LEFT JOIN next AS n ON n.name = h.name
  WHERE s.name = h.name
  RETURNING s.name, s.token, h.token AS ended, s.mark, s.state, s.lock_until, h.now, h.watched, n.holder AS heir, n.inbox, n.asked,
    s.released = (n.holder IS NULL) AND s.mark >= h.mark AND (NOT h.replace OR s.state IS NOT DISTINCT FROM h.state)
    AND s.holder = coalesce(n.holder, h.holder) AND s.locked_by = s.holder AND s.lock_until >= h.now + coalesce(n.ttl, h.linger) * interval '1 microsecond'
    AND (s.token = h.token) = (n.holder IS NULL) AND s.token >= h.token AS written
)
SELECT a.name, false,
  coalesce(s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND NOT s.released AND a.name NOT IN (SELECT l.name FROM locked AS l WHERE l.lock_until <= l.now), false),
  coalesce(s.holder = a.holder AND s.locked_by = a.holder AND s.token = a.token AND s.released AND s.mark >= a.mark, false),
  coalesce(s.mark, 0), NULL::text
FROM asked AS a LEFT JOIN {{table}} AS s ON s.name = a.name
UNION ALL
SELECT e.name, true, e.written, false, e.mark, {{hand}} FROM ended AS e
