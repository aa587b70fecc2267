-- One claim of a holder who waits. KEYS: the bucket's counter, names and due, the record, and the line's holders by when they came, and
-- what they want. ARGV: the name, holder, TTL in µs, the holder's inbox. Answers as acquire.lua, with one more field: how many µs ago the
-- lease began behind a grant, and the instant of this request behind a refusal. Who is refused has a place in the line.
local key, line, wants = KEYS[4], KEYS[5], KEYS[6]
local name, holder, ttl, inbox = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local rec = read(key, 'w')
local function leave()
  if not (rec and rec.w) then return end
  redis.call('ZREM', line, holder)
  redis.call('HDEL', wants, holder)
end
if rec and live(rec, holder, rec.t, key) then
  leave()
  return {'granted', rec.t, rec.m, state(key), '0', int(math.max(0, now - rec.g))}
end
if rec and rec.u > now then
  redis.call('ZADD', line, 'NX', int(now), holder)
  redis.call('HSET', wants, holder, int(now) .. ' ' .. int(ttl) .. ' ' .. inbox)
  if not rec.w then redis.call('HSET', key, 'w', '1') end
  local h, t, m, left, age = told(rec)
  return {'held', h, t, m, left, age, '', int(now)}
end
local abandoned = '0'
if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
local token = grant(key, rec, #key - #name + 1, holder, ttl, KEYS[1], KEYS[2])
if not token then return {'overflow'} end
leave()
return {'granted', token, rec and rec.m or '0', rec and state(key) or '', abandoned, '0'}
