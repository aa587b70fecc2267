-- KEYS: of each claim its record, and where keys are shared with other libraries the shared key or the record again. ARGV: what the keys of the part
-- begin with, '1' if a grant that is asked for again is written again, what begins the value of a shared key, then of each claim: holder, TTL in µs, and '' or its mark and
-- what the token must be above. Answers of each: the token, or {'granted', token, mark, state, abandoned µs}, {'held' or 'done', holder, token, mark, left µs,
-- age µs, state}, {'overflow'}, or as attempt; or -n for the same as the nth answer, which is 'held'. What is refused writes nothing.
local again, begins = ARGV[2] == '1', ARGV[3]
local recs, changed = {}, {} -- by key, false for none; those to be written

local function change(rec)
  if not rec.changed then changed[#changed + 1], rec.changed = rec, true end
end

-- take grants a name that is free. One that is shared is written before its shared key is.
local function take(key, rec, peer, holder, ttl, above)
  local left_behind, age = state(rec), abandoned(rec)
  rec = grant(key, rec, holder, ttl, above)
  if not rec then return {'overflow'} end
  recs[key] = rec
  if sharing and peer ~= key then
    rec.p = begins .. holder
    store({rec})
    share(peer, rec.p, ttl)
  else
    change(rec)
  end
  rec.held_at = nil
  return granted(rec, left_behind, age)
end

-- refused is what a claim is refused with, nil if it is not.
local function refused(key, rec, peer, holder, mark)
  local who, lasts, id
  if sharing then who, lasts, id = foreign(rec, peer, peer ~= key and begins .. holder or '') end
  local h, t, m, left, age = told(rec)
  if who then h, t, left, age = who, id, lasts, 0 end
  if string.sub(mark, 1, 1) == '-' or (mark ~= '0' and rec and not less(rec.m, mark)) then return {'done', h, t, m, left, age, state(rec)} end
  if who or rec and rec.u > now and (rec.h ~= holder or rec.r) then return {'held', h, t, m, left, age, ''} end
end

local function claim(n, key, v, peer, holder, ttl, want)
  local rec = recs[key]
  if rec == nil then
    rec = record(key, v)
    recs[key] = rec or false
  end
  rec = rec or nil
  if live(rec, holder, rec and rec.t, peer) then
    if again then change(rec) end
    return granted(rec, state(rec), 0)
  end
  if want == '' and rec and rec.held_at then return -rec.held_at end
  local mark, above = '0', '0'
  if want ~= '' then mark, above = string.match(want, '^(%S+) (%d+)$') end
  local no = refused(key, rec, peer, holder, mark)
  if not no then return take(key, rec, peer, holder, ttl, tonumber(above)) end
  if no[1] == 'held' and rec and not sharing then rec.held_at = n end
  return no
end

local keys, n = records(stride)
local read = values(keys, n)
local answer, written, all = {}, {}, {}
for n, key in ipairs(keys) do
  local at = 1 + 3 * n
  local holder, ttl, want = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  if usual and want == '' and recs[key] == nil and not written[key] then written[key], answer[n] = usual(read[n], holder, ttl) end
  if answer[n] then
    all[#all + 1], all[#all + 2] = key, written[key]
  else
    answer[n] = attempt(claim, n, key, written[key] or read[n], KEYS[n * stride], holder, ttl, want)
  end
end
store(changed, all)
