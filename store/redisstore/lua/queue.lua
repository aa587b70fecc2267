-- One claim of a holder who waits. KEYS: the bucket's counter, names and due, the record, and the line's holders by when they came, and
-- what they want. ARGV: the name, holder, TTL in µs, the holder's inbox, and the secret by which it will know what is for it. Answers as
-- acquire.lua, with more at the end of grants and refusals: the instant of this request, and of a grant the instant at which the lease began. Who
-- is refused has a place in the line.
local key, line, wants = KEYS[4], KEYS[5], KEYS[6]
local name, holder, ttl, inbox, secret = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local function leave(rec)
  if not (rec and rec.w) then return end
  redis.call('ZREM', line, holder)
  redis.call('HDEL', wants, holder)
end

local function queue()
  local rec = read(key, 'w')
  if rec and live(rec, holder, rec.t, key) then
    leave(rec)
    return {'granted', rec.t, rec.m, state(key), '0', int(now), int(rec.g)}
  end
  if rec and rec.u > now then
    redis.call('ZADD', line, 'NX', int(now), holder)
    redis.call('HSET', wants, holder, int(now) .. ' ' .. int(ttl) .. ' ' .. secret .. ' ' .. inbox)
    if not rec.w then redis.call('HSET', key, 'w', '1') end
    local h, t, m, left, age = told(rec)
    return {'held', h, t, m, left, age, '', int(now)}
  end
  local left_behind, abandoned = rec and state(key) or '', '0'
  if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
  local token = grant(key, rec, #key - #name + 1, holder, ttl, KEYS[1], KEYS[2])
  if not token then return {'overflow'} end
  leave(rec)
  return {'granted', token, rec and rec.m or '0', left_behind, abandoned, int(now), int(now)}
end

local answer = attempt(queue)
