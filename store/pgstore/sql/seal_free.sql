-- The words of seal.sql that tell those who watch e.name that the lease with token e.ended is over: what stands for the name, and the token.
('x' || encode(substring(sha256(convert_to(e.name, 'UTF8')) FROM 1 FOR 8), 'hex'))::bit(64)::bigint AS a, e.ended AS b, 0::bigint AS c, 0::bigint AS d
