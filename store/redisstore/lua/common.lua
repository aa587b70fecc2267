-- What all scripts begin with. A record is a hash: h holder, r '1' when released, t token, m mark, u until, g granted, s state,
-- e how long it must be kept ('inf' for ever), p what stands in the key of ShedLock's that is taken with it. Instants are microseconds of the server's clock, exact in a double until 2255; tokens and
-- instants are written with %.0f, for tostring would round them. Marks may be larger, so they stay strings.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function int(n) return string.format('%.0f', n) end

-- less compares numbers >= 0 that are written without leading zeros.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function read(key)
  local v = redis.call('HMGET', key, 'h', 'r', 't', 'm', 'u', 'g', 'p')
  if not v[3] then return nil end
  return {h = v[1], r = v[2] == '1', t = v[3], m = v[4], u = tonumber(v[5]), g = tonumber(v[6]), p = v[7] or ''}
end

-- ours says that a record still has the key that is shared with ShedLock, if it has one: a Java client may have taken or deleted it.
local function ours(rec, peer)
  return rec.p == '' or redis.call('GET', peer) == rec.p
end

local function ms(micros) return int(math.max(1, math.ceil(micros / 1000))) end

local function state(key) return redis.call('HGET', key, 's') or '' end

-- told is the record for whoever asked: 'holder, token, mark, left, age'.
local function told(rec)
  if not rec then return '', '0', '0', '0', '0' end
  return rec.r and '' or rec.h, rec.t, rec.m, int(math.max(0, rec.u - now)), int(math.max(0, now - rec.g))
end

local function live(rec, holder, token, peer)
  return rec and not rec.r and rec.h == holder and rec.t == token and rec.u > now and ours(rec, peer)
end

-- forgettable is from when on the record may be forgotten; nil for never.
local function forgettable(key, rec)
  local kept = redis.call('HGET', key, 'e')
  if kept == 'inf' then return nil end
  if not rec.r and (rec.m ~= '0' or redis.call('HSTRLEN', key, 's') > 0) then return nil end
  return math.max(rec.u, tonumber(kept or '0'))
end

-- grant takes a free name. It answers nil when the tokens are used up.
local function grant(key, rec, name, holder, ttl, counter, names, due)
  local token = math.max(now, tonumber(redis.call('GET', counter) or '0') + 1, rec and tonumber(rec.t) + 1 or 0)
  if token > 9007199254740991 then return nil end
  redis.call('HSET', key, 'h', holder, 'r', '0', 't', int(token), 'u', int(now + ttl), 'g', int(now))
  redis.call('SET', counter, int(token))
  if not rec then
    redis.call('HSET', key, 'm', '0')
    redis.call('ZADD', names, 0, name)
    redis.call('ZADD', due, int(now + ttl), name)
  end
  return int(token)
end
