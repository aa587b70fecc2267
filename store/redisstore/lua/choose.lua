-- KEYS: the bucket's counter, names and due, then of each name its record and the key that is shared with Java clients, or the record
-- again. ARGV: where the name begins in a record's key, holder, TTL in µs, '1' to look only for a name that the holder has, '1' if a
-- grant that is asked for again is written again, what to write into a shared key. Answers {index from 0, as acquire.lua}, index -1 for
-- none of the holder's.
local holder, ttl = ARGV[2], tonumber(ARGV[3])
local recs = {}
for i = 4, #KEYS, 2 do
  local rec = read(KEYS[i])
  if rec and live(rec, holder, rec.t, KEYS[i + 1]) then
    if ARGV[5] == '1' then redis.call('HSET', KEYS[i], 'h', holder) end
    return {(i - 4) / 2, 'granted', rec.t, rec.m, state(KEYS[i]), '0'}
  end
  recs[i] = rec or false
end
if ARGV[4] == '1' then return {-1} end
local first, soonest = nil, nil
for i = 4, #KEYS, 2 do
  local rec, peer = recs[i] or nil, KEYS[i + 1]
  local value = peer ~= KEYS[i] and ARGV[6] or ''
  local who, lasts = foreign(rec, peer, value)
  if not who and (not rec or rec.u <= now) then
    local abandoned = '0'
    if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
    local token = grant(KEYS[i], rec, tonumber(ARGV[1]), holder, ttl, KEYS[1], KEYS[2])
    if not token then return {(i - 4) / 2, 'overflow'} end
    if value ~= '' then share(KEYS[i], peer, value, ttl) end
    return {(i - 4) / 2, 'granted', token, rec and rec.m or '0', rec and state(KEYS[i]) or '', abandoned}
  end
  local left = lasts or rec.u - now
  if not soonest or left < soonest then
    local h, t, m, _, age = told(rec)
    if who then h, age = who, '0' end
    first, soonest = {(i - 4) / 2, 'held', h, t, m, int(left), age, ''}, left
  end
end
return first
