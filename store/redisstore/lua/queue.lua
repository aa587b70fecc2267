-- One claim of a holder who waits. KEYS: the record. ARGV: what the keys of the part begin with, holder, TTL in µs, the holder's inbox, and the secret by which
-- it will know what is for it. Answers {as acquire.lua, the instant of this request, and of a grant the instant at which the lease began}, or {as
-- attempt}. Who is refused has a place in the line.
local key, name = KEYS[1], name_of(KEYS[1])
local line, wants = key_of('w:', name), key_of('v:', name)
local holder, ttl, inbox, secret = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local function leave(rec)
  if not (rec and rec.w) then return end
  redis.call('ZREM', line, holder)
  redis.call('HDEL', wants, holder)
end

local function queue()
  local rec = record(key, redis.pcall('GET', key))
  if live(rec, holder, rec and rec.t) then
    local answer = granted(rec, state(rec), 0)
    leave(rec)
    return {answer, now, rec.g}
  end
  if rec and rec.u > now then
    redis.call('ZADD', line, 'NX', int(now), holder)
    redis.call('HSET', wants, holder, int(now) .. ' ' .. int(ttl) .. ' ' .. secret .. ' ' .. inbox)
    if not rec.w then
      rec.w = true
      store({rec})
    end
    local h, t, m, left, age = told(rec)
    return {{'held', h, t, m, left, age, ''}, now}
  end
  local left_behind, age = state(rec), abandoned(rec)
  rec = grant(key, rec, holder, ttl, 0)
  if not rec then return {{'overflow'}} end
  leave(rec)
  store({rec})
  return {granted(rec, left_behind, age), now, now}
end

local answer = attempt(queue)
if type(answer[1]) == 'string' then answer = {answer} end
