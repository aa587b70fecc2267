-- ?1 nanoseconds to add, ?2 now, both of the new clock. No result.
-- Nothing lasts longer from now than it was given in all, whatever the wall clock has done in between. Times are taken for at most 4e18, 126 years, either
-- way: a sum that is too large for an integer, as of a record that something else has written, would be an error of the whole statement.
UPDATE records SET
  since  = min(max(min(since, 4000000000000000000), -4000000000000000000) + ?1, ?2),
  until  = min(max(min(until, 4000000000000000000), -4000000000000000000) + ?1,
    ?2 + max(0, max(min(until, 4000000000000000000), -4000000000000000000) - max(min(since, 4000000000000000000), -4000000000000000000))),
  retain = CASE WHEN retain <= 4000000000000000000 THEN max(retain, -4000000000000000000) + ?1 ELSE retain END
