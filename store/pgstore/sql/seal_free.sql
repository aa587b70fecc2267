-- The words of seal.sql that tell those who watch e.name that the lease with token e.ended is over, or ends sooner: what stands for the name, the
-- token, and {{at}}: 0, or for a lock of ShedLock, whose end can be changed more than once, what schema/fence.sql gives: it grows with each change.
('x' || encode(substring(sha256(convert_to(e.name, 'UTF8')) FROM 1 FOR 8), 'hex'))::bit(64)::bigint AS a, e.ended AS b, {{at}} AS c, 0::bigint AS d
