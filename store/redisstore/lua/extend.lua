-- KEYS of each: its record and the key that is shared with Java clients, or the record again. ARGV of each: holder, token, TTL in µs, mark,
-- '1' to replace the state, state. Answers of each: 1, 0 for a lease that is not live, or as attempt.
local function extend(key, peer, at)
  local rec = read(key)
  if not live(rec, ARGV[at + 1], ARGV[at + 2], peer) then return 0 end
  local to = math.max(rec.u, now + tonumber(ARGV[at + 3]))
  admit(key)
  redis.call('HSET', key, 'u', int(to))
  if shares(rec, peer) then redis.call('PEXPIRE', peer, ms(to - now)) end
  if less(rec.m, ARGV[at + 4]) then redis.call('HSET', key, 'm', ARGV[at + 4]) end
  if ARGV[at + 5] == '1' then redis.call('HSET', key, 's', ARGV[at + 6]) end
  return 1
end

local answer = {}
for i = 1, #KEYS, 2 do answer[#answer + 1] = attempt(extend, KEYS[i], KEYS[i + 1], (i - 1) * 3) end
