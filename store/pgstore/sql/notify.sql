-- An expression of release.sql where there are notifications: tells who listens that e.name is released.
-- Notifications cost a lock that is held until the commit has reached the disk, so they are left out while nobody listens. Who listens
-- holds this advisory lock shared, for one of 256 groups of names; who has it exclusively until its commit knows that nobody
-- listens, and the one that begins to listen waits for that commit. Somebody else who takes such a lock is taken for one who listens.
CASE
  WHEN NOT pg_try_advisory_xact_lock({{group}} + get_byte(sha256({{secret}} || convert_to(e.name, 'UTF8')), 0))
  THEN pg_notify({{channel}}, {{free}})::text
END
