-- KEYS: the bucket's counter, names and due, then of each claim its record and the key that is shared with Java clients, or the record
-- again. ARGV: where the name begins in a record's key, '1' if a grant that is asked for again is written again, then of each claim:
-- holder, TTL in µs, mark, what to write into the shared key or '', what the token must be above. Answers of each: {'granted', token, mark, state, abandoned µs},
-- {'held' or 'done', holder, token, mark, left µs, age µs, state}, {'overflow'}, or as attempt. What is refused writes nothing.
local first = tonumber(ARGV[1])

local function claim(key, peer, holder, ttl, mark, value, above)
  local rec = read(key, 's')
  local left_behind = rec and kept(key, rec.s) or ''
  if rec and live(rec, holder, rec.t, peer) then
    if ARGV[2] == '1' then redis.call('HSET', key, 'h', holder) end
    return {'granted', rec.t, rec.m, left_behind, '0'}
  end
  local who, lasts, token = foreign(rec, peer, value)
  if string.sub(mark, 1, 1) == '-' or (mark ~= '0' and rec and not less(rec.m, mark)) then
    local h, t, m, left, age = told(rec)
    if who then h, t, left, age = who, token, int(lasts), '0' end
    return {'done', h, t, m, left, age, left_behind}
  end
  if who then return {'held', who, token, rec and rec.m or '0', int(lasts), '0', ''} end
  if rec and rec.u > now and (rec.h ~= holder or rec.r) then
    local h, t, m, left, age = told(rec)
    return {'held', h, t, m, left, age, ''}
  end
  local abandoned = '0'
  if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
  token = grant(key, rec, first, holder, ttl, KEYS[1], KEYS[2], above)
  if not token then return {'overflow'} end
  if value ~= '' then share(key, peer, value, ttl) end
  return {'granted', token, rec and rec.m or '0', left_behind, abandoned}
end

local answer = {}
for i = 4, #KEYS, 2 do
  local at = 3 + (i - 4) / 2 * 5
  answer[#answer + 1] = attempt(claim, KEYS[i], KEYS[i + 1], ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
end
