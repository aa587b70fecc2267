-- What all scripts begin with. A record is a hash: h holder, r '1' when released, t token, m mark, u until, g granted, s state,
-- e how long it must be kept ('inf' forever), p what stands in the key that is shared with Java clients: the value of ShedLock's
-- string, or 'r:' and the field of Redisson's hash, w '1' when somebody may stand in its line, d its score in due if it
-- is there. Instants are microseconds of the server's clock, exact in a double until 2255;
-- tokens and instants are written with %.0f, for tostring would round them. Marks may be larger, so they stay strings.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function int(n) return string.format('%.0f', n) end

-- less compares numbers >= 0 that are written without leading zeros.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- attempt returns what step answers. What goes wrong in the step is answered too, so that it harms one name of a batch alone:
-- {'corrupt', key, what is wrong with it} of a key that is not as these scripts write it, or {'failed', the error} of a command.
local function attempt(step, ...)
  local ok, answer = pcall(step, ...)
  if ok then return answer end
  if type(answer) ~= 'table' then return {'failed', answer} end
  return answer.key and {'corrupt', answer.key, answer.wrong} or {'failed', answer.err}
end

-- corrupt ends a step.
local function corrupt(key, wrong) error({key = key, wrong = wrong}) end

-- whole says that text is a whole number without leading zeros, and at most most.
local exact, int64 = '9007199254740991', '9223372036854775807'
local function whole(text, most)
  if not text or not string.find(text, '^%d+$') then return false end
  return (text == '0' or string.byte(text) ~= 48) and not less(most, text)
end

-- number reads a whole number out of a key, where it is kept as what.
local function number(key, text, what)
  if not whole(text, exact) then corrupt(key, what .. (text and ' is no number' or ' is missing')) end
  return tonumber(text)
end

-- valid checks the fields of a record.
local function valid(key, v)
  if not v[1] or v[1] == '' then corrupt(key, 'field h, the holder, is missing') end
  if v[2] ~= '0' and v[2] ~= '1' then corrupt(key, 'field r, whether it is released, is not 0 or 1') end
  if v[3] == '0' or not whole(v[3], exact) then corrupt(key, 'field t, the token, is no number from 1 to ' .. exact) end
  if not whole(v[4], int64) then corrupt(key, 'field m, the mark, is no number from 0 to ' .. int64) end
end

-- read returns a record, with one or three more of its fields if they are named; nil if there is none.
local function read(key, a, b, c)
  local v
  if c then
    v = redis.pcall('HMGET', key, 'h', 'r', 't', 'm', 'u', 'g', 'p', a, b, c)
  else
    v = redis.pcall('HMGET', key, 'h', 'r', 't', 'm', 'u', 'g', 'p', a or 'h')
  end
  if v.err and string.find(v.err, 'WRONGTYPE', 1, true) then corrupt(key, 'it is no hash') end
  if v.err then error(v) end
  if not (v[1] or v[2] or v[3] or v[4] or v[5] or v[6]) then return nil end
  valid(key, v)
  local rec = {key = key, h = v[1], r = v[2] == '1', t = v[3], m = v[4], p = v[7] or ''}
  rec.u, rec.g = number(key, v[5], 'field u, the end of the lease,'), number(key, v[6], 'field g, the instant of the grant,')
  if a then rec[a] = v[8] end
  if c then rec[b], rec[c] = v[9], v[10] end
  return rec
end

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
    corrupt(peer, 'it should be a lock of ' .. (command == 'GET' and 'ShedLock, a string,' or 'Redisson, a hash,') .. ' and is something else')
  end
  if type(v) == 'table' and v.err then error(v) end
  return v
end

-- ours says that a record still has the shared key, if it has one: a Java client may have taken or deleted it.
local function ours(rec, peer)
  if not shares(rec, peer) then return true end
  if field(rec.p) then return asked('HEXISTS', peer, field(rec.p)) == 1 end
  return asked('GET', peer) == rec.p
end

-- identity is a number for what stands in a shared key that is not ours. It names the lock for a release by force and orders nothing: it is less than
-- all tokens of ours, which are not less than the microseconds since 1970.
local function identity(who) return int(1 + tonumber(string.sub(redis.sha1hex(who), 1, 12), 16)) end

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
  return who, math.max(1, left) * 1000, identity(who)
end

local function ms(micros) return int(math.max(1, math.ceil(micros / 1000))) end

-- share takes the shared key for a lease, unshare gives it up, at once or after the linger.
local function share(key, peer, value, ttl)
  if field(value) then
    redis.call('DEL', peer)
    redis.call('HSET', peer, field(value), '1', 'mode', 'write') -- the mode is for RReadWriteLock, which would otherwise enter
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

-- kept is the state that a field holds.
local function kept(key, s)
  if s and #s > 65536 then corrupt(key, 'field s, the state, is longer than 65536 bytes') end
  return s or ''
end

local function state(key) return kept(key, redis.call('HGET', key, 's')) end

-- told is the record for the one that asked: 'holder, token, mark, left, age'.
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

-- forgettable is from when on the record may be forgotten; nil for never, as long as it is not released.
local function forgettable(rec)
  if not rec.r or rec.e == 'inf' then return nil end
  return math.max(rec.u, number(rec.key, rec.e, 'field e, until when it is kept,'))
end

-- next_token returns the token of all that this script grants, or nil when the tokens are used up. It is greater than all that were
-- granted in the bucket, of which the counter is the greatest, or greater than the record's if somebody has deleted the counter. It is
-- greater than above, too.
local top, top_text = nil, nil
local function next_token(counter, rec, above)
  if less(exact, above) then return nil end
  local last = top and 0 or number(counter, redis.call('GET', counter) or '0', 'it is the greatest token, and')
  last = math.max(last, tonumber(above))
  if rec and (not top or tonumber(rec.t) >= top) then last = math.max(last, tonumber(rec.t)) end
  if top and last < top then return top_text end
  if math.max(now, last + 1) > 9007199254740991 then return nil end
  local token = math.max(now, last + 1)
  redis.call('SET', counter, int(token))
  top, top_text = token, int(token)
  return top_text
end

-- due says from when on a record is to be looked at for sweeping. It is never later than that it may be forgotten; sweep.lua moves it.
-- It returns what the record has to remember of that.
local function due(key, rec, name, at)
  if whole(rec.d, exact) and tonumber(rec.d) <= at then return rec.d end
  redis.call('ZADD', key, int(at), name)
  return int(at)
end

-- grant takes a free name. It returns nil when the tokens are used up. The record comes last: where the user lacks a right in between, the
-- name stays free. Where the name begins in the key is said by first; without above any token will do.
local function grant(key, rec, first, holder, ttl, counter, names, above)
  local token = next_token(counter, rec, above or '0')
  if not token then return nil end
  if rec then
    if rec.p ~= '' then redis.call('HDEL', key, 'p') end
    redis.call('HSET', key, 'h', holder, 'r', '0', 't', token, 'u', int(now + ttl), 'g', int(now))
  else
    local name = string.sub(key, first)
    redis.call('ZADD', names, 0, name)
    redis.call('HSET', key, 'h', holder, 'r', '0', 't', token, 'm', '0', 'u', int(now + ttl), 'g', int(now))
  end
  return token
end
