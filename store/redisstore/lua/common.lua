-- What all scripts begin with. A record is a hash: h holder, r '1' when released, t token, m mark, u until, g granted, s state,
-- e how long it must be kept ('inf' for ever), p what stands in the key that is shared with Java clients: the value of ShedLock's
-- string, or 'r:' and the field of Redisson's hash, w '1' when somebody may stand in its line. Instants are microseconds of the server's clock, exact in a double until 2255;
-- tokens and instants are written with %.0f, for tostring would round them. Marks may be larger, so they stay strings.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function int(n) return string.format('%.0f', n) end

-- less compares numbers >= 0 that are written without leading zeros.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function read(key)
  local v = redis.call('HMGET', key, 'h', 'r', 't', 'm', 'u', 'g', 'p', 'w')
  if not v[3] then return nil end
  return {key = key, h = v[1], r = v[2] == '1', t = v[3], m = v[4], u = tonumber(v[5]), g = tonumber(v[6]), p = v[7] or '', w = v[8]}
end

-- field answers the field of Redisson's hash, nil if p is not for Redisson.
local function field(p)
  if string.sub(p, 1, 2) == 'r:' then return string.sub(p, 3) end
end

-- redisson is how Redisson calls what belongs to the lock name.
local function redisson(prefix, name)
  if string.find(name, '{', 1, true) then return prefix .. ':' .. name end
  return prefix .. ':{' .. name .. '}'
end

-- shares says that the lease was taken with a shared key, and that whoever asks knows it.
local function shares(rec, peer) return rec.p ~= '' and peer ~= rec.key end

-- ours says that a record still has the shared key, if it has one: a Java client may have taken or deleted it.
local function ours(rec, peer)
  if not shares(rec, peer) then return true end
  if field(rec.p) then return redis.call('HEXISTS', peer, field(rec.p)) == 1 end
  return redis.call('GET', peer) == rec.p
end

-- foreign answers who has the shared key when the record has not, and for how many µs; nil if nobody has. value is what would stand there.
local function foreign(rec, peer, value)
  if value == '' or redis.call('EXISTS', peer) == 0 then return nil end
  if rec and shares(rec, peer) and ours(rec, peer) then return nil end
  local who = field(value) and redis.call('HKEYS', peer)[1] or redis.call('GET', peer)
  local left = redis.call('PTTL', peer)
  if left < 0 then left = 1000 end -- it has no end: look again in a second
  return who, math.max(1, left) * 1000
end

local function ms(micros) return int(math.max(1, math.ceil(micros / 1000))) end

-- share takes the shared key for a lease, unshare gives it up, at once or after the linger.
local function share(key, peer, value, ttl)
  if field(value) then
    redis.call('DEL', peer)
    redis.call('HSET', peer, field(value), '1')
    redis.call('PEXPIRE', peer, ms(ttl))
    redis.call('INCR', redisson('redisson_lock_token', peer))
  else
    redis.call('SET', peer, value, 'PX', ms(ttl))
  end
  redis.call('HSET', key, 'p', value)
end

local function unshare(rec, peer, linger)
  if not shares(rec, peer) then return end
  if linger > 0 then
    redis.call('PEXPIRE', peer, ms(linger))
    return
  end
  redis.call('DEL', peer)
  if field(rec.p) then redis.call('PUBLISH', redisson('redisson_lock__channel', peer), '0') end
end

local function state(key) return redis.call('HGET', key, 's') or '' end

-- told is the record for whoever asked: 'holder, token, mark, left, age'.
local function told(rec)
  if not rec then return '', '0', '0', '0', '0' end
  return rec.r and '' or rec.h, rec.t, rec.m, int(math.max(0, rec.u - now)), int(math.max(0, now - rec.g))
end

local function live(rec, holder, token, peer)
  return rec and not rec.r and rec.h == holder and rec.t == token and rec.u > now and ours(rec, peer)
end

-- admit makes the writes that follow pass when memory is full: a server looks at its memory before the first write of a script only, and
-- lets this one through, which changes nothing.
local admitted = false
local function admit(key)
  if not admitted then redis.call('PERSIST', key) end
  admitted = true
end

-- forgettable is from when on the record may be forgotten; nil for never.
local function forgettable(key, rec)
  local kept = redis.call('HGET', key, 'e')
  if kept == 'inf' then return nil end
  if not rec.r and (rec.m ~= '0' or redis.call('HSTRLEN', key, 's') > 0) then return nil end
  return math.max(rec.u, tonumber(kept or '0'))
end

-- grant takes a free name. It answers nil when the tokens are used up. The record comes last: where the user lacks a right in between, the
-- name stays free.
local function grant(key, rec, name, holder, ttl, counter, names, due)
  local token = math.max(now, tonumber(redis.call('GET', counter) or '0') + 1, rec and tonumber(rec.t) + 1 or 0)
  if token > 9007199254740991 then return nil end
  redis.call('SET', counter, int(token))
  if not rec then
    redis.call('ZADD', names, 0, name)
    redis.call('ZADD', due, int(now + ttl), name)
  elseif rec.p ~= '' then
    redis.call('HDEL', key, 'p')
  end
  redis.call('HSET', key, 'h', holder, 'r', '0', 't', int(token), 'm', rec and rec.m or '0', 'u', int(now + ttl), 'g', int(now))
  return int(token)
end
