-- KEYS: the part's due. ARGV: what the keys of the part begin with, how many to forget at most, the greatest token that may be. Answers how many
-- were forgotten, 1 when there may be more, and of each name of which something went wrong what attempt answers. Such a name is looked at again in an hour.
local forgotten, troubles, due = 0, {}, KEYS[1]
local seen = redis.call('ZRANGEBYSCORE', due, '-inf', int(now), 'LIMIT', 0, ARGV[2])

-- forget raises the floor before the token is gone.
local function forget(rec, name)
  local key = key_of('floor')
  if floor(key) < rec.t then
    put('SET', key, int(rec.t))
    least = rec.t
  end
  redis.call('DEL', rec.key, key_of('s:', name))
  if rec.w then redis.call('DEL', key_of('w:', name), key_of('v:', name)) end
  redis.call('ZREM', key_of('names'), name)
  redis.call('ZREM', due, name)
  forgotten = forgotten + 1
end

-- move has a record looked at later, or only after its next release.
local function move(rec, name, to)
  if to then put('ZADD', due, int(to), name) else redis.call('ZREM', due, name) end
  rec.d = to or 0
  put('SET', rec.key, packed(rec))
end

local function sweep(name)
  local key = key_of('r:', name)
  local rec = record(key, redis.pcall('GET', key))
  if not rec then -- somebody has deleted it
    redis.call('ZREM', key_of('names'), name)
    redis.call('ZREM', due, name)
  elseif not rec.r or rec.e == math.huge or rec.t > tonumber(ARGV[3]) then
    move(rec, name)
  elseif math.max(rec.u, rec.e) > now then
    move(rec, name, math.max(rec.u, rec.e))
  else
    forget(rec, name)
  end
end

for _, name in ipairs(seen) do
  local trouble = attempt(sweep, name)
  if trouble then
    troubles[#troubles + 1] = trouble
    put('ZADD', due, int(now + 3600 * 1000000), name)
  end
end
local answer = {forgotten, #seen == tonumber(ARGV[2]) and 1 or 0, troubles}
