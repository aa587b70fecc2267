-- KEYS: the bucket's counter, names and due, then of each release its record and the key that is shared with Java clients, or the record again. ARGV: where
-- the name begins in a record's key, what the channels begin with, what all keys do, then of each release: holder, token, linger in µs, mark, '1' to
-- replace the state, state, retain in µs or 'inf'. Answers of each: 1, or 0 for a lease that is not live. One that is released already
-- answers 1 to the same holder.

-- hand_over grants a name that is free to the first of its line whom the news reaches, and answers until when. Of one whom nobody hears
-- nothing is kept.
local function hand_over(key, rec, name)
  local line, wants = ARGV[3] .. 'w:' .. name, ARGV[3] .. 'v:' .. name
  while true do
    local holder = redis.call('ZRANGEBYSCORE', line, '-inf', '+inf', 'LIMIT', 0, 1)[1]
    if not holder then
      redis.call('HDEL', key, 'w')
      return
    end
    local since, ttl, inbox = string.match(redis.call('HGET', wants, holder) or '', '^(%d+) (%d+) (.*)$')
    redis.call('ZREM', line, holder)
    redis.call('HDEL', wants, holder)
    local token = since and grant(key, rec, 0, holder, tonumber(ttl), KEYS[1], KEYS[2])
    if token then
      local news = token .. ' ' .. since .. ' ' .. int(now) .. ' ' .. rec.m .. ' ' .. #holder .. ' ' .. holder .. state(key)
      if redis.call('PUBLISH', inbox, news) > 0 then return now + tonumber(ttl) end
      redis.call('HSET', key, 'r', '1', 'u', int(now))
      rec.t = token
    end
  end
end

-- look_again tells all in a line that the lease in their way ends at another time.
local function look_again(name)
  local told = {}
  for _, want in ipairs(redis.call('HVALS', ARGV[3] .. 'v:' .. name)) do
    local inbox = string.match(want, '^%d+ %d+ (.*)$')
    if not told[inbox] then redis.call('PUBLISH', inbox, '') end
    told[inbox] = true
  end
end

local answers = {}
for i = 4, #KEYS, 2 do
  local key, peer, at = KEYS[i], KEYS[i + 1], 3 + (i - 4) / 2 * 7
  local holder, token, mark = ARGV[at + 1], ARGV[at + 2], ARGV[at + 4]
  local rec, answer = read(key, 'w', 'd', 'e'), 0
  if live(rec, holder, token, peer) then
    local name = string.sub(key, tonumber(ARGV[1]))
    local linger = tonumber(ARGV[at + 3])
    admit(key)
    if less(rec.m, mark) then rec.m = mark end
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
    if rec.w and linger > 0 then
      look_again(name)
    elseif rec.w then
      local to = hand_over(key, rec, name)
      if to and to < rec.u then look_again(name) end
    end
    answer = 1
  elseif rec and rec.r and rec.h == holder and rec.t == token and not less(rec.m, mark) then
    answer = 1
  end
  answers[#answers + 1] = answer
end
return answers
