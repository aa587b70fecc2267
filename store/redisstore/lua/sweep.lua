-- KEYS: the bucket's counter, names and due. ARGV: how many to forget at most, what records' keys begin with, what all keys do. Answers how many were
-- forgotten, and '1' when there may be more.
local forgotten, seen = 0, redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', int(now), 'LIMIT', 0, ARGV[1])
for _, name in ipairs(seen) do
  local key = ARGV[2] .. name
  local rec = read(key, 'w', 'd', 'e')
  local from = rec and forgettable(rec)
  if not rec then -- somebody has deleted it
    redis.call('ZREM', KEYS[2], name)
    redis.call('ZREM', KEYS[3], name)
  elseif not from then
    redis.call('ZREM', KEYS[3], name)
    redis.call('HDEL', key, 'd')
  elseif from > now then
    redis.call('ZADD', KEYS[3], int(from), name)
    redis.call('HSET', key, 'd', int(from))
  else
    if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(rec.t) then redis.call('SET', KEYS[1], rec.t) end
    redis.call('DEL', key)
    if rec.w then redis.call('DEL', ARGV[3] .. 'w:' .. name, ARGV[3] .. 'v:' .. name) end
    redis.call('ZREM', KEYS[2], name)
    redis.call('ZREM', KEYS[3], name)
    forgotten = forgotten + 1
  end
end
return {forgotten, #seen == tonumber(ARGV[1]) and 1 or 0}
