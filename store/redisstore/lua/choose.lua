-- KEYS as acquire.lua, of each name. ARGV: what the keys of the part begin with, holder, TTL in µs, '1' to look only for a name that the holder has,
-- '1' if a grant that is asked for again is written again, what begins the value of a shared key. Answers {index from 0, as acquire.lua}, index -1 for
-- none of the holder's. A name whose record is corrupt, or which has no tokens left, is passed over, and told if there is nothing else to tell.
local holder, ttl, begins = ARGV[2], tonumber(ARGV[3]), ARGV[6]
local keys, n = records(stride)
local read = values(keys, n)
local recs, spoiled, first_free, soonest = {}, nil, nil, nil

-- owned returns the holder's grant of a name, if it has it.
local function owned(i)
  local rec = record(keys[i], read[i])
  recs[i] = rec or false
  if not live(rec, holder, rec and rec.t, KEYS[i * stride]) then return nil end
  local answer = granted(rec, state(rec), 0)
  if ARGV[5] == '1' then store({rec}) end
  return answer
end

-- take returns the grant of a name that is free, and notes how long one is taken that is not.
local function take(i)
  local key, rec, peer = keys[i], recs[i] or nil, KEYS[i * stride]
  local value = sharing and peer ~= key and begins .. holder or ''
  local who, lasts, id
  if sharing then who, lasts, id = foreign(rec, peer, value) end
  if who or rec and rec.u > now then
    local left = lasts or rec.u - now
    if soonest and left >= soonest then return nil end
    local h, t, m, _, age = told(rec)
    if who then h, t, age = who, id, 0 end
    first_free, soonest = {i - 1, {'held', h, t, m, left, age, ''}}, left
    return nil
  end
  local left_behind, age = state(rec), abandoned(rec)
  rec = grant(key, rec, holder, ttl, 0)
  if not rec then return {'overflow'} end
  rec.p = value
  store({rec})
  if value ~= '' then share(peer, value, ttl) end
  return granted(rec, left_behind, age)
end

-- try returns what step has to say of the first name of which it says anything.
local function try(step)
  for i = 1, n do
    local said = (step == owned or recs[i] ~= nil) and attempt(step, i)
    if type(said) == 'table' and (said[1] == 'corrupt' or said[1] == 'failed' or said[1] == 'overflow') then
      spoiled, recs[i] = spoiled or {i - 1, said}, nil
    elseif said then
      return {i - 1, said}
    end
  end
end

local answer = try(owned)
if not answer and ARGV[4] == '1' then answer = {-1} end
answer = answer or try(take) or first_free or spoiled
