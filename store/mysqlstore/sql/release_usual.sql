-- For a routine: the short way of a release of one name, where nothing is shared with ShedLock. {general} is the long way, {call} the number of
-- this call. The lease is released without waiting for a lock, if it is live and its mark does not become another than the one that was asked for.
-- Everything else goes the long way. A row as in lease_look.
BEGIN
DECLARE v_changed INT DEFAULT 0;
DECLARE CONTINUE HANDLER FOR 1205 SET v_changed = 0;
SET STATEMENT innodb_lock_wait_timeout = 0 FOR
  UPDATE {records} AS r SET r.lock_until = {now} + INTERVAL {c.ttl} MICROSECOND, r.released = 1, r.mark = {c.mark}, r.state = COALESCE({c.state}, r.state),
    r.retain_until = IF({c.retain} < 0, '9999-12-31 23:59:59.999999', {now} + INTERVAL {c.retain} MICROSECOND), r.call_id = {call}
  WHERE r.name = {c.row_name} AND r.mark <= {c.mark} AND {live};
SET v_changed = ROW_COUNT() = 1;
IF v_changed THEN
  SELECT {c.i}, TRUE, {c.ttl} > 0, TRUE, {c.mark}, FALSE, {c.holder}, {c.token}, {c.ttl};
ELSE
{general};
END IF;
END
