-- What scripts do with records.
local part = ARGV[1]

-- int writes a number: tostring would round it.
local function int(n) return string.format('%.0f', n) end

-- less compares numbers >= 0 that are written without leading zeros.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- key_of returns the key of the part, or of one of its names.
local function key_of(kind, name) return part .. kind .. (name or '') end

local function name_of(record) return string.sub(record, #part + #'r:' + 1) end

-- attempt returns what step answers. What goes wrong in the step is answered too, so that it harms one name of a batch alone:
-- {'corrupt', key, what is wrong with it} of a key that is not as these scripts write it, or {'failed', the error} of a command.
local function attempt(step, ...)
  local ok, answer = pcall(step, ...)
  if ok then return answer end
  if type(answer) ~= 'table' then return {'failed', answer} end
  return answer.key and {'corrupt', answer.key, answer.wrong} or {'failed', answer.err}
end

-- corrupt ends a step.
local function corrupt(key, wrong) error({key = key, wrong = wrong}) end

-- whole says that text is a whole number without leading zeros, and at most most.
local function whole(text, most)
  if not text or not string.find(text, '^%d+$') then return false end
  return (text == '0' or string.byte(text) ~= 48) and not less(most, text)
end

-- record unpacks what was read of a key; nil if there is no record.
local function record(key, v)
  if not v then return nil end
  if v.err and string.find(v.err, 'WRONGTYPE', 1, true) then corrupt(key, 'it is no string') end
  if v.err then error(v) end
  if #v < head then corrupt(key, 'it is too short for a record') end
  local of, r, w, s, t, u, g, e, d, hs, ms, ps = struct.unpack(form, v)
  if of ~= version then corrupt(key, 'it is no record of version ' .. version) end
  if r > 1 or w > 1 or s > 1 then corrupt(key, 'a flag is neither 0 nor 1') end
  if hs == 0 or #v ~= head + hs + ms + ps then corrupt(key, 'it is as long as no record') end
  if not (t >= 1 and t <= exact and t % 1 == 0) then corrupt(key, 'the token is no number from 1 to ' .. int(exact)) end
  if not (u >= 0 and u <= exact and g >= 0 and g <= exact and e >= 0 and d >= 0) then corrupt(key, 'an instant is none') end
  local m = string.sub(v, head + hs + 1, head + hs + ms)
  if m ~= '0' and not whole(m, int64) then corrupt(key, 'the mark is no number from 0 to ' .. int64) end
  return {key = key, r = r == 1, w = w == 1, s = s == 1, t = t, u = u, g = g, e = e, d = d,
    h = string.sub(v, head + 1, head + hs), m = m, p = string.sub(v, head + hs + ms + 1)}
end

local function packed(rec)
  return struct.pack(form, version, rec.r and 1 or 0, rec.w and 1 or 0, rec.s and 1 or 0, rec.t, rec.u, rec.g, rec.e, rec.d, #rec.h, #rec.m, #rec.p)
    .. rec.h .. rec.m .. rec.p
end

-- state reads the state of a record, which has a key of its own.
local function state(rec)
  if not rec or not rec.s then return '' end
  local s = redis.pcall('GET', key_of('s:', name_of(rec.key)))
  if not s or s.err and string.find(s.err, 'WRONGTYPE', 1, true) then corrupt(rec.key, 'its state is gone') end
  if s.err then error(s) end
  if #s > 65536 then corrupt(rec.key, 'its state is longer than 65536 bytes') end
  return s
end

-- told is the record for the one that asked: holder, token, mark, left, age.
local function told(rec)
  if not rec then return '', 0, '0', 0, 0 end
  return rec.r and '' or rec.h, rec.t, rec.m, math.max(0, rec.u - now), math.max(0, now - rec.g)
end
