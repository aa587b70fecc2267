-- KEYS: the bucket's counter, names and due. ARGV: how many to forget at most, what records' keys begin with, what all keys do. Answers how many were
-- forgotten, 1 when there may be more, and of each name of which something went wrong what attempt answers. Such a name is looked at again in an hour.
local forgotten, troubles = 0, {}
local seen = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', int(now), 'LIMIT', 0, ARGV[1])

local function sweep(name)
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
    if number(KEYS[1], redis.call('GET', KEYS[1]) or '0', 'it is the greatest token, and') < tonumber(rec.t) then redis.call('SET', KEYS[1], rec.t) end
    redis.call('DEL', key)
    if rec.w then redis.call('DEL', ARGV[3] .. 'w:' .. name, ARGV[3] .. 'v:' .. name) end
    redis.call('ZREM', KEYS[2], name)
    redis.call('ZREM', KEYS[3], name)
    forgotten = forgotten + 1
  end
end

for _, name in ipairs(seen) do
  local trouble = attempt(sweep, name)
  if trouble then
    troubles[#troubles + 1] = trouble
    redis.call('ZADD', KEYS[3], int(now + 3600 * 1000000), name)
  end
end
local answer = {forgotten, #seen == tonumber(ARGV[1]) and 1 or 0, troubles}
