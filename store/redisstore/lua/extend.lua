-- KEYS as acquire.lua. ARGV: what the keys of the part begin with, then of each: holder, token, TTL in µs, mark, '1' to replace the state, state.
-- Answers of each: 1, 0 for a lease that is not live, or as attempt.
local recs, changed = {}, {}

local function extend(key, v, peer, at)
  local rec = recs[key] or record(key, v)
  if not live(rec, ARGV[at], tonumber(ARGV[at + 1]), peer) then return 0 end
  recs[key] = rec
  rec.u = math.max(rec.u, now + tonumber(ARGV[at + 2]))
  if less(rec.m, ARGV[at + 3]) then rec.m = ARGV[at + 3] end
  if ARGV[at + 4] == '1' then put_state(rec, ARGV[at + 5]) end
  if sharing and shares(rec, peer) then redis.call('PEXPIRE', peer, ms(rec.u - now)) end
  if not rec.changed then changed[#changed + 1], rec.changed = rec, true end
  return 1
end

local keys, n = records(stride)
local read = values(keys, n)
local answer = {}
for n, key in ipairs(keys) do answer[n] = attempt(extend, key, read[n], KEYS[n * stride], 6 * n - 4) end
put_all(changed)
