-- KEYS: the bucket's counter, names and due, then of each release its record and the key that is shared with Java clients, or the record again. ARGV: where
-- the name begins in a record's key, what the channels begin with, what all keys do, what would stand in a shared key, then of each release: holder,
-- token, linger in µs, mark, '1' to replace the state, state, retain in µs or 'inf'. Answers of each: 1, 0 for a lease that is not live, or as attempt. One that is released already
-- answers 1 to the same holder.

-- want reads what a holder in a line wants: the instant of its request, its TTL, its secret and its inbox; nil if nobody can tell.
local function want(text)
  local since, ttl, secret, inbox = string.match(text or '', '^(%d+) (%d+) (%w+) (.*)$')
  if since and whole(since, exact) and whole(ttl, exact) then return tonumber(since), tonumber(ttl), secret, inbox end
end

-- hand_over grants a name that is free to the first of its line whom the news reaches, and returns until when. If nobody hears them nothing was
-- granted: the record is again as its last holder left it, who may repeat the release. The news are for the process that knows the secret, and
-- tell others nothing: how long after the request the grant was, by how
-- much its token is greater than its instant, and 1 if the record has a mark or a state, which the holder has to read.
local function hand_over(key, rec, name)
  local line, wants = ARGV[3] .. 'w:' .. name, ARGV[3] .. 'v:' .. name
  while true do
    local holder = redis.call('ZRANGEBYSCORE', line, '-inf', '+inf', 'LIMIT', 0, 1)[1]
    if not holder then
      redis.call('HDEL', key, 'w')
      return
    end
    local since, ttl, secret, inbox = want(redis.call('HGET', wants, holder))
    redis.call('ZREM', line, holder)
    redis.call('HDEL', wants, holder)
    local token = since and grant(key, rec, 0, holder, ttl, KEYS[1], KEYS[2])
    if token then
      local news = secret .. ' ' .. int(now - since) .. ' ' .. int(tonumber(token) - now)
      if rec.m ~= '0' or state(key) ~= '' then news = news .. ' 1' end
      if redis.call('PUBLISH', inbox, news) > 0 then return now + ttl end
      redis.call('HSET', key, 'h', rec.h, 'r', '1', 't', rec.t, 'u', int(now), 'g', int(rec.g))
    end
  end
end

-- look_again tells all in a line that the lease in their way ends at another time.
local function look_again(name)
  local told = {}
  for _, text in ipairs(redis.call('HVALS', ARGV[3] .. 'v:' .. name)) do
    local since, _, _, inbox = want(text)
    if since and not told[inbox] then
      redis.call('PUBLISH', inbox, '')
      told[inbox] = true
    end
  end
end

-- serve does for a line what a release does for it.
local function serve(key, rec, name, linger)
  local to = linger == 0 and hand_over(key, rec, name)
  if linger > 0 or (to and to < rec.u) then look_again(name) end
end

-- give_up ends a live lease. It has ended whatever is corrupt in its line, where those who wait will ask again by themselves.
local function give_up(key, peer, rec, at)
  local name, linger = string.sub(key, tonumber(ARGV[1])), tonumber(ARGV[at + 3])
  admit(key)
  if less(rec.m, ARGV[at + 4]) then rec.m = ARGV[at + 4] end
  local to = int(now + linger)
  if ARGV[at + 7] == 'inf' then
    redis.call('HSET', key, 'r', '1', 'u', to, 'e', 'inf', 'm', rec.m)
  else
    local kept = now + math.max(linger, tonumber(ARGV[at + 7]))
    redis.call('HSET', key, 'r', '1', 'u', to, 'e', int(kept), 'm', rec.m, 'd', due(KEYS[3], rec, name, kept))
  end
  if ARGV[at + 5] == '1' then redis.call('HSET', key, 's', ARGV[at + 6]) end
  unshare(rec, peer, linger)
  redis.call('PUBLISH', ARGV[2] .. name, '')
  local trouble = rec.w and attempt(serve, key, rec, name, linger)
  if trouble and trouble[1] == 'failed' then error({err = trouble[2]}) end
end

-- force ends a lock that a Java client holds: its holder does not answer any more.
local function force(key, peer, rec, holder, token)
  local who, _, id = foreign(rec, peer, peer ~= key and ARGV[4] or '')
  if who ~= holder or id ~= token then return 0 end
  admit(key)
  redis.call('DEL', peer)
  if field(ARGV[4]) then redis.call('PUBLISH', redisson('redisson_lock__channel', peer), '0') end
  redis.call('PUBLISH', ARGV[2] .. string.sub(key, tonumber(ARGV[1])), '')
  return 1
end

local function release(key, peer, at)
  local holder, token = ARGV[at + 1], ARGV[at + 2]
  local rec = read(key, 'w', 'd', 'e')
  if live(rec, holder, token, peer) then
    give_up(key, peer, rec, at)
    return 1
  end
  if rec and rec.r and rec.h == holder and rec.t == token and not less(rec.m, ARGV[at + 4]) then return 1 end
  return force(key, peer, rec, holder, token)
end

local answer = {}
for i = 4, #KEYS, 2 do answer[#answer + 1] = attempt(release, KEYS[i], KEYS[i + 1], 4 + (i - 4) / 2 * 7) end
