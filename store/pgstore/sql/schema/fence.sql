-- Gives a new token to a lock that is taken with statements that know nothing of tokens, and notifies waiters when such statements unlock.
-- Such a lock also raises the mark to its instant in Unix milliseconds, and {{early}} more: the scheduled times of a job up to then have been
-- run by ShedLock. The floor is that of schema/floor.sql, looked for until it is one that no sweep is just removing; without any, the
-- lock is refused. The function runs with the rights of its owner, so that those who lock need none on the other tables. A notification
-- has the place of the change in the WAL, which grows whatever the clock does, or the instant in Unix microseconds if the server does
-- not show that place. It must not let the statement that unlocks fail: there is none while the queue of notifications is almost full,
-- for a commit that finds it full fails.
CREATE OR REPLACE FUNCTION {{fence}}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fence$
DECLARE
  micros bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  place bigint := micros;
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.token = 0 THEN
      LOOP
        SELECT greatest(floor + 1, micros) INTO NEW.token FROM {{floor}} WHERE floor = (SELECT max(floor) FROM {{floor}}) FOR KEY SHARE;
        EXIT WHEN FOUND;
        IF NOT EXISTS (SELECT 1 FROM {{floor}}) THEN
          RAISE EXCEPTION '% cannot be locked, for %_floor is empty: soloist doctor shows how to fill it', NEW.name, TG_TABLE_NAME;
        END IF;
      END LOOP;
      NEW.mark := greatest(NEW.mark, micros / 1000 + {{early}});
    END IF;
  ELSIF NEW.token = OLD.token AND (NEW.locked_at IS DISTINCT FROM OLD.locked_at OR NEW.locked_by IS DISTINCT FROM OLD.locked_by) THEN
    NEW.token := greatest(OLD.token + 1, micros);
    NEW.mark := greatest(NEW.mark, micros / 1000 + {{early}});
  ELSIF NEW.lock_until < OLD.lock_until AND NEW.locked_by <> NEW.holder THEN
    IF NOT pg_try_advisory_xact_lock({{base}} + TG_RELID::bigint * 256 + get_byte(sha256({{secret}} || convert_to(NEW.name, 'UTF8')), 0))
      AND pg_notification_queue_usage() < 0.9 THEN
      BEGIN
        place := (pg_current_wal_insert_lsn() - '0/0')::bigint;
      EXCEPTION WHEN OTHERS THEN NULL;
      END;
      PERFORM pg_notify('soloist_' || TG_RELID, {{sooner}}) FROM (SELECT NEW.name AS name, NEW.token AS ended, place AS at) AS e;
    END IF;
  END IF;
  RETURN NEW;
END
$fence$;
DROP TRIGGER IF EXISTS {{trigger}} ON {{table}};
CREATE TRIGGER {{trigger}} BEFORE INSERT OR UPDATE ON {{table}} FOR EACH ROW EXECUTE FUNCTION {{fence}}();
-- A lock that was taken without the trigger gets the token that it would have had: without one it could not be released by force.
UPDATE {{table}} SET token = greatest(1, (extract(epoch FROM least(greatest(locked_at, {{first}}), {{last}})) * 1000000)::bigint)
WHERE token = 0 AND holder = '';
