-- KEYS: the part's names. ARGV: what the keys of the part begin with, first and last name as for ZRANGEBYLEX, how many. Answers of each:
-- {name, holder, token, mark, left µs, age µs, state}, {name} for one that is there no more, or {name, and as attempt}.
local function row(name)
  local key = key_of('r:', name)
  local rec = record(key, redis.pcall('GET', key))
  if not rec then return {name} end -- somebody has deleted it
  local h, t, m, left, age = told(rec)
  return {name, h, t, m, left, age, state(rec)}
end

local answer = {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])) do
  local said = attempt(row, name)
  if #said ~= 1 and #said ~= 7 then said = {name, unpack(said)} end
  answer[#answer + 1] = said
end
