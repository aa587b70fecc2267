-- For a routine: the short way of a claim of one name, where nothing is shared with ShedLock. {general} is the long way, {call} the number of this
-- call, {anew} what begins a transaction. The row is read without a lock. If it is held or done, that is the answer; if it looks free, it is taken as it was read, without
-- waiting for a lock, and the answer is what then stands in it, for a trigger can have changed it. What is neither goes the long way: a name without
-- a row, a row that another transaction has locked or changed since, a corrupt one. A row as in acquire_look.
BEGIN
DECLARE v_call, v_token, v_mark, v_released, v_left, v_age, v_bytes, v_from BIGINT;
DECLARE v_taken, v_known INT DEFAULT 0;
DECLARE v_holder, v_by VARBINARY(1020);
DECLARE v_state LONGBLOB;
DECLARE v_now DATETIME(6) DEFAULT {now};
SELECT r.call_id, r.token, r.mark, r.released, TIMESTAMPDIFF(MICROSECOND, v_now, r.lock_until), TIMESTAMPDIFF(MICROSECOND, r.locked_at, v_now),
  LENGTH(r.state), TIMESTAMPDIFF(MICROSECOND, r.taken_from, r.locked_at), r.holder, r.locked_by, r.state
INTO v_call, v_token, v_mark, v_released, v_left, v_age, v_bytes, v_from, v_holder, v_by, v_state
FROM {records} AS r WHERE r.name = {c.row_name};
IF v_left > 0 OR ({c.mark} <> 0 AND v_mark >= {c.mark}) THEN
  SET v_known = 1;
ELSEIF v_left <= 0 AND GREATEST(v_token, {c.above}) < {max} THEN
  SET v_from = IF(v_released OR v_by <> v_holder, NULL, v_age),
    v_token = GREATEST(GREATEST(v_token, {c.above}) + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', v_now));
  BEGIN
  DECLARE CONTINUE HANDLER FOR 1205 BEGIN {anew}; END;
  SET STATEMENT innodb_lock_wait_timeout = 0 FOR
    UPDATE {records} AS r SET r.taken_from = IF(v_from IS NULL, NULL, r.locked_at), r.lock_until = v_now + INTERVAL {c.ttl} MICROSECOND, r.locked_at = v_now,
      r.locked_by = CONVERT({c.holder} USING utf8mb4), r.holder = {c.holder}, r.released = 0, r.token = v_token, r.record = {c.record}, r.call_id = {call}
    WHERE r.name = {c.row_name} AND r.call_id = v_call AND r.lock_until <= v_now AND ({c.mark} = 0 OR r.mark < {c.mark}) AND r.token < v_token AND {sound};
  SET v_taken = ROW_COUNT() = 1;
  END;
END IF;
IF v_taken THEN
  SELECT {c.i}, (r.call_id = {call}) + IF(r.token = v_token AND r.locked_at = v_now, 0, 2), r.holder, r.locked_by, r.released, r.token, r.mark,
    TIMESTAMPDIFF(MICROSECOND, v_now, r.lock_until), TIMESTAMPDIFF(MICROSECOND, r.locked_at, v_now), LENGTH(r.state), TIMESTAMPDIFF(MICROSECOND, r.taken_from, r.locked_at), r.state
  FROM {records} AS r WHERE r.name = {c.row_name};
ELSEIF v_known THEN
  SELECT {c.i}, IF(v_token >= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', v_now) - v_age, 0, 2), v_holder, v_by, v_released, v_token, v_mark, v_left, v_age, v_bytes, v_from,
    IF(v_holder = {c.holder} OR ({c.mark} <> 0 AND v_mark >= {c.mark}), v_state, NULL);
ELSE
{general};
END IF;
END
