-- An expression of the claims: when the lease of row s was granted, in µs since 1970. No lease of soloist's has a token below it, unless a trigger that somebody
-- has put on the table has lowered that.
(extract(epoch FROM least(greatest(s.locked_at, {{first}}), {{last}})) * 1000000)::bigint
