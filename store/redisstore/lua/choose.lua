-- KEYS: the bucket's counter, names and due, then of each name its record and the key that is shared with Java clients, or the record
-- again. ARGV: where the name begins in a record's key, holder, TTL in µs, '1' to look only for a name that the holder has, '1' if a
-- grant that is asked for again is written again, what to write into a shared key. Answers {index from 0, as acquire.lua}, index -1 for
-- none of the holder's. A name whose record is corrupt is passed over, and told if there is nothing else to tell.
local holder, ttl = ARGV[2], tonumber(ARGV[3])
local recs, spoiled, first, soonest = {}, nil, nil, nil

-- owned returns the holder's grant of a name, if it has it.
local function owned(i)
  local rec = read(KEYS[i])
  recs[i] = rec or {}
  if not (rec and live(rec, holder, rec.t, KEYS[i + 1])) then return nil end
  if ARGV[5] == '1' then redis.call('HSET', KEYS[i], 'h', holder) end
  return {'granted', rec.t, rec.m, state(KEYS[i]), '0'}
end

-- take returns the grant of a name that is free, and notes how long one is taken that is not.
local function take(i)
  local rec, peer = recs[i].t and recs[i], KEYS[i + 1]
  local value = peer ~= KEYS[i] and ARGV[6] or ''
  local who, lasts, token = foreign(rec, peer, value)
  if who or (rec and rec.u > now) then
    local left = lasts or rec.u - now
    local h, t, m, _, age = told(rec or nil)
    if who then h, t, age = who, token, '0' end
    if not soonest or left < soonest then first, soonest = {(i - 4) / 2, 'held', h, t, m, int(left), age, ''}, left end
    return nil
  end
  local left_behind, abandoned = rec and state(KEYS[i]) or '', '0'
  if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
  token = grant(KEYS[i], rec, tonumber(ARGV[1]), holder, ttl, KEYS[1], KEYS[2])
  if not token then return {'overflow'} end
  if value ~= '' then share(KEYS[i], peer, value, ttl) end
  return {'granted', token, rec and rec.m or '0', left_behind, abandoned}
end

-- try returns what step has to say of the first name of which it says anything.
local function try(step)
  for i = 4, #KEYS, 2 do
    local said = (step == owned or recs[i]) and attempt(step, i)
    if said and (said[1] == 'corrupt' or said[1] == 'failed') then
      spoiled, recs[i] = spoiled or {(i - 4) / 2, unpack(said)}, nil
    elseif said then
      return {(i - 4) / 2, unpack(said)}
    end
  end
end

local answer = try(owned)
if not answer and ARGV[4] == '1' then answer = {-1} end
answer = answer or try(take) or first or spoiled
