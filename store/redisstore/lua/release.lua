-- KEYS as acquire.lua. ARGV: what the keys of the part begin with, '1' if releases are published although nobody may watch, what would stand in
-- a shared key, then of each release: holder, token, '' or its linger in µs, mark, '1' to replace the state, and retain in µs or 'inf', and the state. Answers of each: 1,
-- 0 for a lease that is not live, or as attempt. One that is released already answers 1 to the same holder.
local published, begins = ARGV[2] == '1', ARGV[3]
local recs, changed, due = {}, {}, {}

local function change(rec)
  if not rec.changed then changed[#changed + 1], rec.changed = rec, true end
end

-- want reads what a holder in a line wants: the instant of its request, its TTL, its secret and its inbox; nil if nobody can tell.
local function want(text)
  local since, ttl, secret, inbox = string.match(text or '', '^(%d+) (%d+) (%w+) (.*)$')
  if since and whole(since, int(exact)) and whole(ttl, int(exact)) then return tonumber(since), tonumber(ttl), secret, inbox end
end

-- hears says that a process has subscribed to its inbox. PUBLISH counts those, too, who hear everything, as a person who looks on by a pattern. A user who has
-- no right to ask is answered by PUBLISH alone.
local function hears(inbox)
  local count = redis.pcall('PUBSUB', 'NUMSUB', inbox)
  return count.err or count[2] > 0
end

-- hand_over grants a name that is free to the first of its line whom the news reaches, and returns until when. If nobody hears them nothing was
-- granted: the record is again as its last holder left it, who may repeat the release. The news are for the process that knows the secret, and
-- tell others nothing: how long after the request the grant was, by how
-- much its token is greater than its instant, and 1 if the record has a mark or a state, which the holder has to read.
local function hand_over(rec, name)
  local line, wants = part .. 'w:' .. name, part .. 'v:' .. name
  local h, t, g = rec.h, rec.t, rec.g
  while true do
    local holder = redis.call('ZRANGEBYSCORE', line, '-inf', '+inf', 'LIMIT', 0, 1)[1]
    if not holder then
      rec.w = false
      put('SET', rec.key, packed(rec))
      return
    end
    local since, ttl, secret, inbox = want(redis.call('HGET', wants, holder))
    redis.call('ZREM', line, holder)
    redis.call('HDEL', wants, holder)
    if since and hears(inbox) and grant(rec.key, rec, holder, ttl, 0) then
      put('SET', rec.key, packed(rec))
      local news = secret .. ' ' .. int(now - since) .. ' ' .. int(rec.t - now)
      if rec.m ~= '0' or rec.s then news = news .. ' 1' end
      if redis.call('PUBLISH', inbox, news) > 0 then return rec.u end
      rec.h, rec.r, rec.t, rec.g, rec.u = h, true, t, g, 0
    end
  end
end

-- look_again tells all in a line that the lease in their way ends at another time.
local function look_again(name)
  local told = {}
  for _, text in ipairs(redis.call('HVALS', part .. 'v:' .. name)) do
    local since, _, _, inbox = want(text)
    if since and not told[inbox] then
      redis.call('PUBLISH', inbox, '')
      told[inbox] = true
    end
  end
end

-- serve does for a line what a release does for it.
local function serve(rec, name, linger, ended)
  local to = linger == 0 and hand_over(rec, name)
  if linger > 0 or (to and to < ended) then look_again(name) end
end

-- keep notes until when a released record must be kept. Its score in due is never later than that it may be forgotten; sweep.lua moves it.
local function keep(rec, name, linger, retain)
  if retain == 'inf' then
    rec.e = math.huge
    return
  end
  rec.e = now + math.max(linger, tonumber(retain))
  if rec.d > 0 and rec.d <= rec.e then return end
  rec.d = rec.e
  due[#due + 1], due[#due + 2] = int(rec.e), name
end

-- give_up ends a live lease. It has ended whatever is corrupt in its line, where those who wait will ask again by themselves. What the user may have no right to comes
-- first: then the record is as it was, also for a release of the same name that follows.
local function give_up(rec, peer, leaves, state)
  local name, linger, ended = name_of(rec.key), tonumber(leaves.linger), rec.u
  if published then redis.call('PUBLISH', part .. 'c:' .. name, '') end
  if sharing then unshare(rec, peer, linger) end
  if leaves.replaces == '1' then put_state(rec, state) end
  if less(rec.m, leaves.mark) then rec.m = leaves.mark end
  rec.r, rec.u = true, linger > 0 and now + linger or 0
  keep(rec, name, linger, leaves.retain)
  if not rec.w then
    change(rec)
    return
  end
  put('SET', rec.key, packed(rec))
  local trouble = attempt(serve, rec, name, linger, ended)
  if trouble and trouble[1] == 'failed' then error({err = trouble[2]}) end
end

-- force ends a lock that another library holds: its holder does not answer any more.
local function force(key, peer, rec, holder, token)
  local who, _, id = foreign(rec, peer, peer ~= key and begins or '')
  if who ~= holder or id ~= token then return 0 end
  redis.call('DEL', peer)
  if field(begins) then redis.call('PUBLISH', redisson('redisson_lock__channel', peer), '0') end
  redis.call('PUBLISH', part .. 'c:' .. name_of(key), '')
  return 1
end

-- left reads what a release leaves: nothing, unless it says so.
local function left(text)
  if text == '' then return {linger = '0', mark = '0', replaces = '0', retain = '0'} end
  local linger, mark, replaces, retain = string.match(text, '^(%d+) (%d+) ([01]) (%w+)$')
  return {linger = linger, mark = mark, replaces = replaces, retain = retain}
end

local function release(key, v, peer, at)
  local holder, token, leaves = ARGV[at], tonumber(ARGV[at + 1]), left(ARGV[at + 2])
  local rec = recs[key] or record(key, v)
  recs[key] = rec
  if live(rec, holder, token, peer) then
    give_up(rec, peer, leaves, ARGV[at + 3])
    return 1
  end
  if rec and rec.r and rec.h == holder and rec.t == token and not less(rec.m, leaves.mark) then return 1 end
  return sharing and force(key, peer, rec, holder, token) or 0
end

local watched = nil
if not published then watched = part .. 'watched' end
local keys, n = records(stride, watched)
local read = values(keys, n)
published = published or read[n + 1]
local answer, written, all = {}, {}, {}
for i = 1, n do
  local key, at, short = keys[i], 4 * i, nil
  if usual and not published and ARGV[at + 2] == '' and recs[key] == nil and not written[key] then short = usual(read[i], ARGV[at], ARGV[at + 1]) end
  if short then
    written[key], answer[i] = short, 1
    all[#all + 1], all[#all + 2] = key, short
  else
    answer[i] = attempt(release, key, written[key] or read[i], KEYS[i * stride], at)
  end
end
if #due > 0 then put('ZADD', part .. 'due', unpack(due)) end
put_all(changed, all)
