-- What scripts know about keys that are shared with other libraries: of Redisson hashes, of all others strings, which whoever sets them deletes if
-- they are unchanged. KEYS has two keys of each name: its record, and the shared key or the record again.
local sharing, stride = true, 2

-- field returns the field of Redisson's hash, nil if p is not for Redisson.
local function field(p)
  if string.sub(p, 1, 2) == 'r:' then return string.sub(p, 3) end
end

-- redisson is how Redisson calls what belongs to the lock name.
local function redisson(prefix, name)
  if string.find(name, '{', 1, true) then return prefix .. ':' .. name end
  return prefix .. ':{' .. name .. '}'
end

-- shares says that the lease was taken with a shared key, and that the one that asks knows it.
local function shares(rec, peer) return rec.p ~= '' and peer ~= rec.key end

-- asked asks for the shared key. One that is no lock is no answer.
local function asked(command, peer, arg)
  local v
  if arg then v = redis.pcall(command, peer, arg) else v = redis.pcall(command, peer) end
  if type(v) == 'table' and v.err and string.find(v.err, 'WRONGTYPE', 1, true) then
    corrupt(peer, 'it should be a lock' .. (command == 'GET' and ', a string,' or ' of Redisson, a hash,') .. ' and is something else')
  end
  if type(v) == 'table' and v.err then error(v) end
  return v
end

-- ours says that a record still has the shared key, if it has one: another library may have taken or deleted it.
local function ours(rec, peer)
  if not shares(rec, peer) then return true end
  if field(rec.p) then return asked('HEXISTS', peer, field(rec.p)) == 1 end
  return asked('GET', peer) == rec.p
end

local function live(rec, holder, token, peer)
  return rec and not rec.r and rec.h == holder and rec.t == token and rec.u > now and ours(rec, peer)
end

-- identity is a number for what stands in a shared key that is not ours. It names the lock for a release by force and orders nothing: it is less than
-- all tokens of ours, which are not less than the microseconds since 1970.
local function identity(who) return 1 + tonumber(string.sub(redis.sha1hex(who), 1, 12), 16) end

-- longest is how many bytes of what stands in a shared key are returned as its holder.
local longest = 255

-- foreign returns who has the shared key when the record has not, for how many µs, and its identity; nil if nobody has. value is what would stand
-- there.
local function foreign(rec, peer, value)
  if value == '' or redis.call('EXISTS', peer) == 0 then return nil end
  if rec and shares(rec, peer) and ours(rec, peer) then return nil end
  local who
  if field(value) then
    local fields = asked('HKEYS', peer)
    who = fields[1] == 'mode' and fields[2] or fields[1] -- a read-write lock has a mode, too
  else
    who = asked('GET', peer)
  end
  local left = redis.call('PTTL', peer)
  if left < 0 then left = 1000 end -- it has no end: look again in a second
  return string.sub(who, 1, longest), math.max(1, left) * 1000, identity(who)
end

local function ms(micros) return int(math.max(1, math.ceil(micros / 1000))) end

-- share takes the shared key for a lease whose record says so, unshare gives it up, at once or after the linger.
local function share(peer, value, ttl)
  if field(value) then
    redis.call('DEL', peer)
    redis.call('HSET', peer, field(value), '1', 'mode', 'write') -- the mode is for RReadWriteLock, which would otherwise enter
    redis.call('PEXPIRE', peer, ms(ttl))
    redis.call('INCR', redisson('redisson_lock_token', peer))
  else
    redis.call('SET', peer, value, 'PX', ms(ttl))
  end
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
