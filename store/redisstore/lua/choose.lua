-- KEYS: the bucket's counter, names and due, then of each name its record and its peer, or the record again. ARGV: where the name begins
-- in a record's key, holder, TTL in µs, '1' to look only for a name that the holder has, then what to have in each peer. Answers {index
-- from 0, as acquire.lua}, index -1 for none of the holder's.
local holder = ARGV[2]
local recs = {}
for i = 4, #KEYS, 2 do
  local rec = read(KEYS[i])
  if rec and live(rec, holder, rec.t, KEYS[i + 1]) then
    return {(i - 4) / 2, 'granted', rec.t, rec.m, state(KEYS[i]), '0'}
  end
  recs[i] = rec or false
end
if ARGV[4] == '1' then return {-1} end
local first, soonest = nil, nil
for i = 4, #KEYS, 2 do
  local rec, p = recs[i], ARGV[5 + (i - 4) / 2]
  local other, left = foreign(rec, KEYS[i + 1], p)
  local answer, ends = nil, nil
  if other then
    answer, ends = {'held', other, rec and rec.t or '0', rec and rec.m or '0', left, '0', ''}, now + tonumber(left)
  elseif rec and rec.u > now then
    local h, t, m, l, age = told(rec)
    answer, ends = {'held', h, t, m, l, age, ''}, rec.u
  else
    answer = grant(rec, KEYS[i], KEYS[i + 1], p, holder, tonumber(ARGV[3]))
    table.insert(answer, 1, (i - 4) / 2)
    return answer
  end
  if not soonest or ends < soonest then
    table.insert(answer, 1, (i - 4) / 2)
    first, soonest = answer, ends
  end
end
return first
