-- The words of seal.sql that tell e.heir of its grant: the instant of its request, token, the instant of the grant, and what stands for the
-- name and the holder, with a digit behind it: 1, and 2 if the server's commits wait for standbys, and 4 if the record has a mark or state.
e.asked AS a, e.token AS b, (extract(epoch FROM e.now) * 1000000)::bigint AS c,
('x' || encode(substring(sha256(convert_to(e.name, 'UTF8') || decode('00', 'hex') || convert_to(e.heir, 'UTF8')) FROM 1 FOR 7), 'hex') || '0'
  || (1 + 2 * (current_setting('synchronous_standby_names') <> '')::int + 4 * (e.mark <> 0 OR coalesce(octet_length(e.state), 0) > 0)::int)
)::bit(64)::bigint AS d
