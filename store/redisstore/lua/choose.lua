-- KEYS: the bucket's counter, names and due, then a record each. ARGV: where the name begins in a record's key, holder, TTL in µs, '1' to
-- look only for a name that the holder has. Answers {index from 0, as acquire.lua}, index -1 for none of the holder's.
local holder, ttl = ARGV[2], tonumber(ARGV[3])
local recs = {}
for i = 4, #KEYS do
  local rec = read(KEYS[i])
  if rec and rec.u > now and not rec.r and rec.h == holder then
    return {i - 4, 'granted', rec.t, rec.m, state(KEYS[i]), '0'}
  end
  recs[i] = rec or false
end
if ARGV[4] == '1' then return {-1} end
local first, soonest = 4, nil
for i = 4, #KEYS do
  local rec = recs[i]
  if not rec or rec.u <= now then
    local abandoned = '0'
    if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
    local token = grant(KEYS[i], rec or nil, string.sub(KEYS[i], tonumber(ARGV[1])), holder, ttl, KEYS[1], KEYS[2], KEYS[3])
    if not token then return {i - 4, 'overflow'} end
    return {i - 4, 'granted', token, rec and rec.m or '0', rec and state(KEYS[i]) or '', abandoned}
  end
  if not soonest or rec.u < soonest then first, soonest = i, rec.u end
end
local h, t, m, left, age = told(recs[first])
return {first - 4, 'held', h, t, m, left, age, ''}
