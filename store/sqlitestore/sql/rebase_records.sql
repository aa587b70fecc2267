-- ?1 nanoseconds to add, ?2 now, both of the new clock. No result.
-- Nothing lasts longer from now than it was given in all, whatever the wall clock has done in between.
UPDATE records SET
  since  = min(since + ?1, ?2),
  until  = min(until + ?1, ?2 + max(0, until - since)),
  retain = CASE WHEN retain < 9223372036854775807 - abs(?1) THEN retain + ?1 ELSE retain END
