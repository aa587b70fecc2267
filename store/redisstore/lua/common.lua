-- What all scripts begin with. A record is a hash: h holder, r '1' when released, t token, m mark, u until, g granted, s state,
-- e how long it must be kept ('inf' for ever), p what it has in its peer.
--
-- Instants are microseconds of the server's clock, exact in a double until 2255; tokens and instants are written with %.0f, for tostring
-- would round them. Marks may be larger, so they stay strings.
--
-- A peer is the key of another library that is taken together with a record. What is had in it is 'S' with the text of a key of
-- ShedLock's, 'R' with the owner in a hash of Redisson's, or '' when there is no peer.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function int(n) return string.format('%.0f', n) end

-- less compares numbers >= 0 that are written without leading zeros.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function ms(micros) return int(math.max(1, math.ceil(micros / 1000))) end

local function read(key)
  local v = redis.call('HMGET', key, 'h', 'r', 't', 'm', 'u', 'g', 'p')
  if not v[3] then return nil end
  return {h = v[1], r = v[2] == '1', t = v[3], m = v[4], u = tonumber(v[5]), g = tonumber(v[6]), p = v[7] or ''}
end

local function state(key) return redis.call('HGET', key, 's') or '' end

-- told is the record for whoever asked: 'holder, token, mark, left, age'.
local function told(rec)
  if not rec then return '', '0', '0', '0', '0' end
  return rec.r and '' or rec.h, rec.t, rec.m, int(math.max(0, rec.u - now)), int(math.max(0, now - rec.g))
end

-- ours says that a record still has its peer, if it has one: somebody else may have taken or deleted it.
local function ours(rec, peer)
  if rec.p == '' then return true end
  local what = string.sub(rec.p, 2)
  if string.sub(rec.p, 1, 1) == 'S' then return redis.call('GET', peer) == what end
  return redis.call('HEXISTS', peer, what) == 1
end

-- foreign answers who has the peer, if that is somebody else, and for how long. p is what would be had in it.
local function foreign(rec, peer, p)
  if p == '' then return nil end
  local kind, other = string.sub(p, 1, 1), nil
  if kind == 'S' then
    other = redis.call('GET', peer)
  else
    other = redis.call('HKEYS', peer)[1]
  end
  if not other or (rec and rec.p == kind .. other) then return nil end
  local left = redis.call('PTTL', peer)
  if left < 0 then left = 86400000 end -- it has no end: whoever waits looks again when it is gone, or tomorrow
  return other, int(math.max(1, left) * 1000)
end

-- beside names what Redisson keeps beside a lock.
local function beside(what, peer)
  if string.find(peer, '{', 1, true) then return what .. ':' .. peer end
  return what .. ':{' .. peer .. '}'
end

local function takepeer(key, peer, p, ttl)
  local what = string.sub(p, 2)
  if string.sub(p, 1, 1) == 'S' then
    redis.call('SET', peer, what, 'PX', ms(ttl))
  else
    redis.call('DEL', peer)
    redis.call('HSET', peer, what, '1')
    redis.call('PEXPIRE', peer, ms(ttl))
    redis.call('INCR', beside('redisson_lock_token', peer))
  end
  redis.call('HSET', key, 'p', p)
end

local function freepeer(rec, peer, linger)
  if rec.p == '' then return end
  if linger > 0 then
    redis.call('PEXPIRE', peer, ms(linger))
    return
  end
  redis.call('DEL', peer)
  if string.sub(rec.p, 1, 1) == 'R' then redis.call('PUBLISH', beside('redisson_lock__channel', peer), '0') end
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

-- grant takes a free name with its peer, and answers what acquire.lua does.
local function grant(rec, key, peer, p, holder, ttl)
  local token = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0') + 1, rec and tonumber(rec.t) + 1 or 0)
  if token > 9007199254740991 then return {'overflow'} end
  redis.call('HSET', key, 'h', holder, 'r', '0', 't', int(token), 'u', int(now + ttl), 'g', int(now))
  redis.call('SET', KEYS[1], int(token))
  if not rec then
    local name = string.sub(key, tonumber(ARGV[1]))
    redis.call('HSET', key, 'm', '0')
    redis.call('ZADD', KEYS[2], 0, name)
    redis.call('ZADD', KEYS[3], int(now + ttl), name)
  end
  if p ~= '' then takepeer(key, peer, p, ttl) end
  local abandoned = '0'
  if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
  return {'granted', int(token), rec and rec.m or '0', rec and state(key) or '', abandoned}
end
