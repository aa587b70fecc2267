-- An expression of the releases that hand over: tells the heir of e.name, and those who listen to the name if there is none, or if what
-- they were told ends later than the heir's lease. See groupOf in listen.go and heard in queue.go. A payload has 8,000 bytes at most, so
-- an heir is told to look where the state is long. What the server's commits wait for may have been cancelled, which only the one who
-- committed is told: an heir makes sure of it.
CASE
  WHEN e.heir IS NOT NULL THEN
    pg_notify({{channel}} || '_' || e.inbox, e.asked || ' ' || CASE WHEN coalesce(octet_length(e.state), 0) > 3000 THEN 0 ELSE e.token END
      || ' ' || (extract(epoch FROM e.now) * 1000000)::bigint || ' ' || e.mark
      || ' ' || (current_setting('synchronous_standby_names') <> '')::int || ' ' || octet_length(e.heir) || ' ' || e.heir
      || CASE WHEN coalesce(octet_length(e.state), 0) > 3000 THEN '' ELSE coalesce(encode(e.state, 'hex'), '') END)::text
    || CASE
      WHEN EXISTS (SELECT 1 FROM {{line}} AS w WHERE w.name = e.name AND w.holder <> e.heir AND w.told > e.lock_until)
      THEN pg_notify({{channel}}, e.name)::text
      ELSE ''
    END
  WHEN e.watched THEN pg_notify({{channel}}, e.name)::text
END
