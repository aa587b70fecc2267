-- A fragment. Whether the row r is such as this store, or ShedLock, writes (see corrupt.go). Nothing is taken, extended, released or
-- forgotten in another.
(r.token > 0 OR (r.token = 0 AND r.holder = '')) AND r.mark >= 0 AND r.released IN (0, 1) AND COALESCE(LENGTH(r.state), 0) <= 65536
AND r.lock_until > '1000-01-01' AND (r.locked_by <> r.holder OR r.lock_until <= {now} + INTERVAL 20 YEAR)
