-- KEYS: the bucket's due, then of each release its record and the key that is shared with Java clients, or the record again. ARGV: where
-- the name begins in a record's key, what the channels begin with, then of each release: holder, token, linger in µs, mark, '1' to
-- replace the state, state, retain in µs or 'inf'. Answers of each: 1, or 0 for a lease that is not live. One that is released already
-- answers 1 to the same holder.
local answers = {}
for i = 2, #KEYS, 2 do
  local key, peer, at = KEYS[i], KEYS[i + 1], 2 + (i - 2) / 2 * 7
  local holder, token, mark = ARGV[at + 1], ARGV[at + 2], ARGV[at + 4]
  local rec, answer = read(key), 0
  if live(rec, holder, token, peer) then
    local name = string.sub(key, tonumber(ARGV[1]))
    local linger = tonumber(ARGV[at + 3])
    local kept = 'inf'
    if ARGV[at + 7] ~= 'inf' then kept = int(now + math.max(linger, tonumber(ARGV[at + 7]))) end
    admit(key)
    redis.call('HSET', key, 'r', '1', 'u', int(now + linger), 'e', kept)
    if less(rec.m, mark) then redis.call('HSET', key, 'm', mark) end
    if ARGV[at + 5] == '1' then redis.call('HSET', key, 's', ARGV[at + 6]) end
    if kept == 'inf' then
      redis.call('ZREM', KEYS[1], name)
    else
      redis.call('ZADD', KEYS[1], kept, name)
    end
    unshare(rec, peer, linger)
    redis.call('PUBLISH', ARGV[2] .. name, '')
    answer = 1
  elseif rec and rec.r and rec.h == holder and rec.t == token and not less(rec.m, mark) then
    answer = 1
  end
  answers[#answers + 1] = answer
end
return answers
