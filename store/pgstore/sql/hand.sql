-- An expression of the releases that hand over: tells the heir of e.name, if the row is as it was written, and those who listen to the name if there is none, or if what
-- they were told ends later than the heir's lease. See heard in queue.go. A caller that may connect can read notifications and send them, so
-- what they say is sealed. What a record has of mark and state the heir asks for. What the server's commits wait for may have been
-- cancelled, which only the one who committed is told: an heir makes sure of it.
CASE
  WHEN e.heir IS NOT NULL AND e.written THEN
    pg_notify({{channel}} || '_' || e.inbox, {{handed}})::text
    || CASE
      WHEN EXISTS (SELECT 1 FROM {{line}} AS w WHERE w.name = e.name AND w.holder <> e.heir AND w.told > e.lock_until)
      THEN pg_notify({{channel}}, {{free}})::text
      ELSE ''
    END
  WHEN e.watched THEN pg_notify({{channel}}, {{free}})::text
END
